// Command oracle says what kube-apiserver's own library makes of CEL expressions. The release is that of the modules it is
// built with: go build -modfile=1.37/go.mod.
//
//	oracle CASES.json    a JSON list of cases, answered by a JSON list of results
//	oracle -serve        one JSON case on each line of stdin, answered by one line each
//
// A case is {id, expression, mode, object, oldObject, params, namespaceObject, request, authorizer: [{user, namespace, verb,
// resource, path, allowed, reason, error}], variables: [{Name, Expression}]}.
// Mode is "" (any type), "bool", "jsonpatch" or "applyconfig". A result is {id, value, type, cost} or
// {id, error, stage, cost}; README.md beside this directory explains values and stages.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	limits "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
)

// keep is how many compilers with variables are kept for later cases with the same variables.
const keep = 64

type variable struct{ Name, Expression string }

type testCase struct {
	ID         string     `json:"id"`
	Expression string     `json:"expression"`
	Mode       string     `json:"mode"`
	Variables  []variable `json:"variables"`
	Authorizer rules      `json:"authorizer"`
	inputs     inputs
}

// inputs are decoded as the API server decodes objects: whole numbers are int64.
type inputs struct {
	object, oldObject, params, namespace, request map[string]any
	authorizer                                    rules
}

type result struct {
	ID    string `json:"id"`
	Value any    `json:"value,omitempty"`
	Type  string `json:"type,omitempty"`
	Error string `json:"error,omitempty"`
	Stage string `json:"stage,omitempty"`
	Cost  int64  `json:"cost"`
}

func main() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == "-serve":
		err = serve()
	case len(os.Args) == 2:
		err = batch(os.Args[1])
	default:
		err = errors.New("usage: oracle CASES.json | oracle -serve")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "oracle:", err)
		os.Exit(1)
	}
}

func batch(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var cases []json.RawMessage
	if err := json.Unmarshal(content, &cases); err != nil {
		return err
	}
	compilers, results := newCompilers(), make([]result, 0, len(cases))
	for _, text := range cases {
		answer, err := compilers.answer(text)
		if err != nil {
			return err
		}
		results = append(results, answer)
	}
	return newEncoder(os.Stdout).Encode(results)
}

func serve() error {
	compilers, in, out := newCompilers(), bufio.NewReaderSize(os.Stdin, 1<<20), bufio.NewWriter(os.Stdout)
	encoder := newEncoder(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the other side has closed the pipe
		}
		answer, err := compilers.answer(line)
		if err != nil {
			return err
		}
		if err := encoder.Encode(answer); err != nil { // a value that JSON lacks, such as NaN in an Object{}
			if err := encoder.Encode(result{ID: answer.ID, Stage: "panic", Error: err.Error()}); err != nil {
				return err
			}
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

func newEncoder(to interface{ Write([]byte) (int, error) }) *json.Encoder {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder
}

func read(text []byte) (testCase, error) {
	var c testCase
	if err := json.Unmarshal(text, &c); err != nil {
		return c, err
	}
	var fields map[string]any
	if err := kjson.Unmarshal(text, &fields); err != nil {
		return c, err
	}
	field := func(name string) map[string]any { found, _ := fields[name].(map[string]any); return found }
	c.inputs = inputs{field("object"), field("oldObject"), field("params"), field("namespaceObject"), field("request"), c.Authorizer}
	return c, nil
}

// accessor is an expression with the types that it may have.
type accessor struct {
	name, expression string
	types            []*cel.Type
}

func (a accessor) GetName() string          { return a.name }
func (a accessor) GetExpression() string    { return a.expression }
func (a accessor) ReturnTypes() []*cel.Type { return a.types }

// compilers are kept by the variables that they know; making one is slow.
type compilers struct {
	base  *environment.EnvSet
	known map[string]*plugin.CompositedCompiler
}

func newCompilers() *compilers {
	return &compilers{base: environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), known: map[string]*plugin.CompositedCompiler{}}
}

func (c *compilers) with(variables []variable) (*plugin.CompositedCompiler, error) {
	key, err := json.Marshal(variables)
	if err != nil {
		return nil, err
	}
	if known := c.known[string(key)]; known != nil {
		return known, nil
	}
	made, err := plugin.NewCompositedCompiler(c.base)
	if err != nil {
		return nil, err
	}
	for _, v := range variables {
		a := accessor{v.Name, v.Expression, []*cel.Type{cel.AnyType, cel.DynType}}
		made.CompileAndStoreVariable(a, declared(false), environment.StoredExpressions)
	}
	if len(c.known) >= keep {
		clear(c.known)
	}
	c.known[string(key)] = made
	return made, nil
}

func declared(patches bool) plugin.OptionalVariableDeclarations {
	return plugin.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true, HasPatchTypes: patches}
}

// evaluator hides that conditions and mutations have interfaces of their own.
type evaluator func(inputs) (plugin.EvaluationResult, int64, error)

func compile(compiler *plugin.CompositedCompiler, c testCase) (evaluator, []error) {
	a := accessor{"", c.Expression, []*cel.Type{cel.AnyType}}
	switch c.Mode {
	case "jsonpatch":
		a.types = []*cel.Type{cel.ListType(cel.ObjectType("JSONPatch"))}
	case "applyconfig":
		a.types = []*cel.Type{cel.ObjectType("Object")}
	case "bool":
		a.types = []*cel.Type{cel.BoolType}
	}
	if c.Mode == "jsonpatch" || c.Mode == "applyconfig" {
		mutation := compiler.CompileMutatingEvaluator(a, declared(true), environment.StoredExpressions)
		return func(in inputs) (plugin.EvaluationResult, int64, error) {
			attributes, request, namespace, bindings, err := activate(in)
			if err != nil {
				return plugin.EvaluationResult{}, limits.RuntimeCELCostBudget, err
			}
			return mutation.ForInput(compiler.CreateContext(context.Background()), attributes, request, bindings, namespace, limits.RuntimeCELCostBudget)
		}, mutation.CompilationErrors()
	}
	condition := compiler.CompileCondition([]plugin.ExpressionAccessor{a}, declared(false), environment.StoredExpressions)
	return func(in inputs) (plugin.EvaluationResult, int64, error) {
		attributes, request, namespace, bindings, err := activate(in)
		if err != nil {
			return plugin.EvaluationResult{}, limits.RuntimeCELCostBudget, err
		}
		results, left, err := condition.ForInput(context.Background(), attributes, request, bindings, namespace, limits.RuntimeCELCostBudget)
		if err != nil {
			return plugin.EvaluationResult{}, left, err
		}
		return results[0], left, nil
	}, condition.CompilationErrors()
}

// activate makes of JSON what the admission chain hands to a policy.
func activate(in inputs) (*admission.VersionedAttributes, *admissionv1.AdmissionRequest, *corev1.Namespace, plugin.OptionalVariableBindings, error) {
	request, bindings := &admissionv1.AdmissionRequest{}, plugin.OptionalVariableBindings{Authorizer: in.authorizer}
	if err := convert(in.request, request); err != nil {
		return nil, nil, nil, bindings, err
	}
	var namespace *corev1.Namespace
	if in.namespace != nil {
		namespace = &corev1.Namespace{}
		if err := convert(in.namespace, namespace); err != nil {
			return nil, nil, nil, bindings, err
		}
		namespace = plugin.CreateNamespaceObject(namespace)
	}
	if in.params != nil {
		bindings.VersionedParams = object(in.params)
	}
	who := &user.DefaultInfo{Name: request.UserInfo.Username, UID: request.UserInfo.UID, Groups: request.UserInfo.Groups, Extra: map[string][]string{}}
	for key, values := range request.UserInfo.Extra {
		who.Extra[key] = values
	}
	kind, resource := schema.GroupVersionKind(request.Kind), schema.GroupVersionResource(request.Resource)
	versioned := &admission.VersionedAttributes{VersionedKind: kind, Attributes: admission.NewAttributesRecord(object(in.object),
		object(in.oldObject), kind, request.Namespace, request.Name, resource, request.SubResource, admission.Operation(request.Operation),
		nil, false, who)}
	set(&versioned.VersionedObject, object(in.object))
	set(&versioned.VersionedOldObject, object(in.oldObject))
	return versioned, request, namespace, bindings, nil
}

// set gives a field its object: a field of that interface in 1.36, one that converts it when it is read since 1.37.
func set(field any, object runtime.Object) {
	switch to := field.(type) {
	case *runtime.Object:
		*to = object
	case interface{ Set(runtime.Object) }:
		to.Set(object)
	}
}

func convert(from map[string]any, to any) error {
	if from == nil {
		return nil
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(from, to)
}

func object(content map[string]any) runtime.Object {
	if content == nil {
		return nil
	}
	return &unstructured.Unstructured{Object: content}
}

// rule is an answer to the checks that have all that is not nil. Path "" stands for checks about a resource.
type rule struct {
	User      *string `json:"user"`
	Namespace *string `json:"namespace"`
	Verb      *string `json:"verb"`
	Resource  *string `json:"resource"`
	Path      *string `json:"path"`
	Allowed   bool    `json:"allowed"`
	Reason    string  `json:"reason"`
	Error     string  `json:"error"`
}

func (r rule) matches(a authorizer.Attributes) bool {
	path := a.GetPath()
	if a.IsResourceRequest() {
		path = ""
	}
	return is(r.User, a.GetUser().GetName()) && is(r.Namespace, a.GetNamespace()) && is(r.Verb, a.GetVerb()) &&
		is(r.Resource, a.GetResource()) && is(r.Path, path)
}

func is(expected *string, got string) bool { return expected == nil || *expected == got }

// rules is an authorizer in which the first rule that matches answers; if none does, the check is denied.
type rules []rule

func (all rules) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, r := range all {
		switch {
		case !r.matches(a):
		case r.Allowed:
			return authorizer.DecisionAllow, r.Reason, nil
		case r.Error != "":
			return authorizer.DecisionNoOpinion, r.Reason, errors.New(r.Error)
		default:
			return authorizer.DecisionDeny, r.Reason, nil
		}
	}
	return authorizer.DecisionDeny, "no rule", nil
}

func (c *compilers) answer(text []byte) (answer result, err error) {
	asked, err := read(text)
	if err != nil {
		return answer, err
	}
	answer.ID = asked.ID
	defer func() {
		if cause := recover(); cause != nil {
			answer = result{ID: asked.ID, Stage: "panic", Error: fmt.Sprint(cause)}
		}
	}()
	compiler, err := c.with(asked.Variables)
	if err != nil {
		return answer, err
	}
	evaluate, problems := compile(compiler, asked)
	if len(problems) > 0 {
		first, _, _ := strings.Cut(strings.TrimPrefix(problems[0].Error(), "compilation failed: "), "\n")
		answer.Stage, answer.Error = "compile", first
		return answer, nil
	}
	got, left, failed := evaluate(asked.inputs)
	answer.Cost = limits.RuntimeCELCostBudget - left
	switch {
	case failed != nil:
		answer.Stage, answer.Error = "budget", failed.Error()
	case got.Error != nil:
		answer.Stage, answer.Error = "eval", got.Error.Error()
		if _, cause, found := strings.Cut(answer.Error, "resulted in error: "); found {
			answer.Error = cause
		}
	case types.IsError(got.EvalResult):
		answer.Stage, answer.Error = "eval", fmt.Sprint(got.EvalResult)
	default:
		answer.Value, answer.Type = plain(got.EvalResult), got.EvalResult.Type().TypeName()
	}
	return answer, nil
}
