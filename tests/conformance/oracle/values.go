package main

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	apiserver "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

// plain makes JSON of a value; what JSON lacks becomes a map with one key that begins with a dollar sign.
func plain(value ref.Val) any {
	switch v := value.(type) {
	case types.Null:
		return nil
	case types.Bool, types.Int, types.String:
		return v.Value()
	case types.Uint:
		return tagged("uint", uint64(v))
	case types.Double:
		return tagged("double", double(float64(v)))
	case types.Bytes:
		return tagged("bytes", []byte(v))
	case types.Duration:
		return tagged("duration", v.Duration.String())
	case types.Timestamp:
		return tagged("timestamp", v.Time.UTC().Format(time.RFC3339Nano))
	case *types.Optional:
		if !v.HasValue() {
			return tagged("optional", nil)
		}
		return tagged("optional", plain(v.GetValue()))
	case *types.Err:
		return tagged("error", v.Error())
	case *dynamic.ObjectVal:
		return tagged("object", native(v.Value()))
	case *mutation.JSONPatchVal:
		return patch(v)
	case traits.Mapper:
		out := map[string]any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			key := i.Next()
			out[name(key)] = plain(v.Get(key))
		}
		return out
	case traits.Lister:
		out := []any{}
		for i := v.Iterator(); i.HasNext() == types.True; {
			out = append(out, plain(i.Next()))
		}
		return out
	}
	if kind, ok := value.(ref.Type); ok { // the value is a type
		return tagged("type", kind.TypeName())
	}
	if v, ok := value.(apiserver.Format); ok {
		return tagged(value.Type().TypeName(), v.Name)
	}
	return tagged(value.Type().TypeName(), text(value.Value()))
}

// text is empty for what has none of its own, such as an authorizer: it would show addresses.
func text(value any) string {
	if v, ok := value.(fmt.Stringer); ok && !types.IsUnknownOrError(asValue(value)) {
		return v.String()
	}
	return ""
}

func asValue(value any) ref.Val { v, _ := value.(ref.Val); return v }

func tagged(kind string, value any) map[string]any { return map[string]any{"$" + kind: value} }

func name(key ref.Val) string {
	if key == types.NullValue {
		return "null"
	}
	return fmt.Sprint(key.Value())
}

// double is a JSON number, or a string for what JSON has no number for. The sign of zero is kept.
func double(value float64) any {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	if value == 0 && math.Signbit(value) {
		return json.RawMessage("-0.0")
	}
	return value
}

func patch(v *mutation.JSONPatchVal) map[string]any {
	out := map[string]any{"op": v.Op, "path": v.Path}
	if v.From != "" {
		out["from"] = v.From
	}
	if v.Val != nil {
		out["value"] = plain(v.Val)
	}
	return out
}

// native is plain for what an Object{} holds: Go values, with CEL values in them.
func native(value any) any {
	if v, ok := value.(ref.Val); ok {
		return plain(v)
	}
	if _, null := value.(structpb.NullValue); null {
		return nil
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Map:
		out := map[string]any{}
		for i := v.MapRange(); i.Next(); {
			out[fmt.Sprint(i.Key().Interface())] = native(i.Value().Interface())
		}
		return out
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			out = append(out, native(v.Index(i).Interface()))
		}
		return out
	}
	return value
}
