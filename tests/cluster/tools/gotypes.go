// Prints the types of Kubernetes' own kinds as JSON: their OpenAPI definitions, which have enumerations here, and for
// each field what Go's encoding omits.
//
// It is run in the module of a release: go run -C kubernetes-1.37 ../gotypes.go (tests/cluster/builtintypes.py does).
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// marshaler is implemented by types that are not encoded field by field, such as quantities.
var marshaler = reflect.TypeFor[json.Marshaler]()

// name is a type's name in the OpenAPI documents: io.k8s.api.core.v1.Pod for k8s.io/api/core/v1.Pod.
func name(t reflect.Type) string {
	return definition(t.PkgPath() + "." + t.Name())
}

// definition is the name of a Go type in the OpenAPI documents. Later releases have it already.
func definition(path string) string {
	host, rest, qualified := strings.Cut(path, "/")
	if !qualified {
		return path
	}
	parts := strings.Split(host, ".")
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return strings.Join(append(parts, strings.ReplaceAll(rest, "/", ".")), ".")
}

// omission says when the encoding leaves a field out: if it is "null" or "empty" or has its "zero" value. A field that
// is always written is "null" where it has no value ("written-null") or its zero value ("written").
func omission(t reflect.Type, options string) string {
	nullable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	switch {
	case strings.Contains(options, "omitzero") && !nullable:
		return "zero"
	case !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero"):
		if nullable || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			return "written-null"
		}
		return "written"
	case nullable:
		return "null"
	case t.Kind() == reflect.Struct:
		return "written"
	}
	return "empty"
}

// table has the omissions of the fields of types.
type table map[string]map[string]string

func (all table) add(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		all.add(t.Elem())
	case reflect.Struct:
		if _, known := all[name(t)]; known || t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
			return
		}
		all[name(t)] = map[string]string{}
		all.fields(t, all[name(t)])
	}
}

func (all table) fields(t reflect.Type, into map[string]string) {
	for i := range t.NumField() {
		field := t.Field(i)
		key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case key == "-" || !field.IsExported():
		case key == "" && field.Anonymous:
			all.fields(field.Type, into)
		default:
			into[key] = omission(field.Type, options)
			all.add(field.Type)
		}
	}
}

func main() {
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiregistration.AddToScheme} {
		if err := add(scheme.Scheme); err != nil {
			panic(err)
		}
	}
	omissions := table{}
	for kind, t := range scheme.Scheme.AllKnownTypes() {
		if kind.Version != runtime.APIVersionInternal {
			omissions.add(t)
		}
	}
	types := map[string]spec.Schema{}
	reference := func(path string) spec.Ref { return spec.MustCreateRef("#/" + definition(path)) }
	for path, found := range generated.GetOpenAPIDefinitions(reference) {
		types[definition(path)] = found.Schema
	}
	whole := map[string]any{"omit": omissions, "types": types}
	if err := json.NewEncoder(os.Stdout).Encode(whole); err != nil {
		panic(err)
	}
}
