// Command reference measures kube-apiserver's own CEL admission library on this machine.
//
//	reference POD.json POLICIES.json
//
// It prints a JSON line for each figure: its name, and the nanoseconds that one operation took, as the minimum and the
// median of seven repeats.
//
//	evaluate/SHAPE        one evaluation, with a fresh activation and fresh variables, cost counted, of an object that is
//	                      decoded JSON: what the API server has of custom resources
//	evaluate-typed/SHAPE  the same of a v1.Pod, which the API server turns into a map for each policy
//	twenty                all policies, from the Pod's bytes to the verdicts
//	compile/POLICY        the mean of its expressions, variables included
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	celgo "github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
)

const (
	repeats = 7
	minimum = 100 * time.Millisecond // of one repeat, with what is not timed
)

var (
	environments = environment.MustBaseEnvSet(version.MajorMinor(1, 36))
	declarations = plugincel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	pods         = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	podKind      = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	namespace    = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "inference"}}
	requester    = &user.DefaultInfo{Name: "alice", Groups: []string{"developers", "system:authenticated"}}
)

type data struct {
	Shapes   []string `json:"shapes"`
	Policies []policy `json:"policies"`
}

type policy struct {
	Name       string       `json:"name"`
	Variables  []expression `json:"variables"`
	Expression string       `json:"expression"`
	Allowed    bool         `json:"allowed"`
}

type expression struct {
	Name  string `json:"name"`
	Text  string `json:"expression"`
	types []*celgo.Type
}

func (e *expression) GetExpression() string      { return e.Text }
func (e *expression) ReturnTypes() []*celgo.Type { return e.types }
func (e *expression) GetName() string            { return e.Name }

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: reference POD.json POLICIES.json")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(podPath, policiesPath string) error {
	pod, err := os.ReadFile(podPath)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(policiesPath)
	if err != nil {
		return err
	}
	var policies data
	if err := json.Unmarshal(content, &policies); err != nil {
		return err
	}
	if err := measureShapes(pod, policies); err != nil {
		return err
	}
	if err := measureTwenty(pod, policies.Policies); err != nil {
		return err
	}
	for _, p := range policies.Policies {
		if err := measureCompilation(p); err != nil {
			return err
		}
	}
	return nil
}

func measureShapes(pod []byte, policies data) error {
	untyped, err := decoded(pod)
	if err != nil {
		return err
	}
	typed := &corev1.Pod{}
	if err := kjson.Unmarshal(pod, typed); err != nil {
		return err
	}
	for _, p := range policies.Policies {
		if !slices.Contains(policies.Shapes, p.Name) {
			continue
		}
		program, err := compiled(p)
		if err != nil {
			return err
		}
		for _, object := range []runtime.Object{untyped, typed} {
			attributes := versioned(object)
			request := admissionRequest(attributes)
			name := "evaluate/"
			if object == runtime.Object(typed) {
				name = "evaluate-typed/"
			}
			once := func() error { return judge(p, program, attributes, request) }
			if err := measure(name+p.Name, 1, untimed, once); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureTwenty(pod []byte, policies []policy) error {
	programs := make([]plugincel.ConditionEvaluator, len(policies))
	for i, p := range policies {
		var err error
		if programs[i], err = compiled(p); err != nil {
			return err
		}
	}
	return measure("twenty", 1, untimed, func() error {
		object, err := decoded(pod)
		if err != nil {
			return err
		}
		attributes := versioned(object)
		for i, p := range policies {
			if err := judge(p, programs[i], attributes, admissionRequest(attributes)); err != nil {
				return err
			}
		}
		return nil
	})
}

func measureCompilation(p policy) error {
	var compiler *plugincel.CompositedCompiler
	prepare := func() (err error) {
		compiler, err = plugincel.NewCompositedCompiler(environments)
		return err
	}
	return measure("compile/"+p.Name, 1+len(p.Variables), prepare, func() error {
		_, err := compiledBy(compiler, p)
		return err
	})
}

func compiled(p policy) (plugincel.ConditionEvaluator, error) {
	compiler, err := plugincel.NewCompositedCompiler(environments)
	if err != nil {
		return nil, err
	}
	return compiledBy(compiler, p)
}

func compiledBy(compiler *plugincel.CompositedCompiler, p policy) (plugincel.ConditionEvaluator, error) {
	for _, v := range p.Variables {
		v.types = []*celgo.Type{celgo.AnyType, celgo.DynType}
		if found := compiler.CompileAndStoreVariable(&v, declarations, environment.StoredExpressions); found.Error != nil {
			return nil, fmt.Errorf("variable %s of %s: %w", v.Name, p.Name, found.Error)
		}
	}
	validation := &expression{Text: p.Expression, types: []*celgo.Type{celgo.BoolType}}
	program := compiler.CompileCondition([]plugincel.ExpressionAccessor{validation}, declarations, environment.StoredExpressions)
	if errs := program.CompilationErrors(); len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", p.Name, errs[0])
	}
	return program, nil
}

func decoded(pod []byte) (*unstructured.Unstructured, error) {
	fields := map[string]any{}
	if err := kjson.Unmarshal(pod, &fields); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

func versioned(object runtime.Object) *admission.VersionedAttributes {
	attributes := admission.NewAttributesRecord(
		object, nil, podKind, namespace.Name, "embeddings-0", pods, "", admission.Create, nil, false, requester)
	return &admission.VersionedAttributes{Attributes: attributes, VersionedObject: object, VersionedKind: podKind}
}

func admissionRequest(attributes *admission.VersionedAttributes) *admissionv1.AdmissionRequest {
	return plugincel.CreateAdmissionRequest(
		attributes.Attributes, metav1.GroupVersionResource(pods), metav1.GroupVersionKind(podKind))
}

func judge(
	p policy, program plugincel.ConditionEvaluator,
	attributes *admission.VersionedAttributes, request *admissionv1.AdmissionRequest,
) error {
	results, _, err := program.ForInput(
		context.Background(), attributes, request, plugincel.OptionalVariableBindings{}, namespace, celconfig.RuntimeCELCostBudget)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Name, err)
	}
	if results[0].Error != nil {
		return fmt.Errorf("%s: %w", p.Name, results[0].Error)
	}
	if allowed := results[0].EvalResult.Value() == true; allowed != p.Allowed {
		return fmt.Errorf("%s: the verdict is %v", p.Name, allowed)
	}
	return nil
}

func untimed() error { return nil }

// measure prints the time of one of the operations that a call of once does; prepare runs before each and is not timed.
func measure(name string, operations int, prepare, once func() error) error {
	calls, err := enough(prepare, once)
	if err != nil {
		return err
	}
	times := make([]float64, repeats)
	for i := range times {
		total, err := timed(calls, prepare, once)
		if err != nil {
			return err
		}
		times[i] = float64(total.Nanoseconds()) / float64(calls*operations)
	}
	slices.Sort(times)
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"name": name, "nanoseconds_per_operation": times[0], "median_nanoseconds_per_operation": times[repeats/2],
	})
}

// enough finds how many calls take long enough to be timed; it also warms up.
func enough(prepare, once func() error) (int, error) {
	for calls := 1; ; calls *= 2 {
		start := time.Now()
		if _, err := timed(calls, prepare, once); err != nil || time.Since(start) >= minimum {
			return calls, err
		}
	}
}

func timed(calls int, prepare, once func() error) (total time.Duration, err error) {
	for range calls {
		if err := prepare(); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := once(); err != nil {
			return 0, err
		}
		total += time.Since(start)
	}
	return total, nil
}
