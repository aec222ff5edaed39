{{/* What the API server refuses while no replica answers, a line each, as far as the values tell it. */}}
{{- define "cks-admission.failsClosed" -}}
{{- $config := .Values.config -}}
{{- if eq (dig "labels" "action" "deny" $config | toString) "deny" }}
writes that add or change reserved labels
{{- end -}}
{{- if eq (dig "tolerations" "action" "warn" $config | toString) "deny" }}
Pods without a toleration for CPU Nodes, and DaemonSets (tolerations.action)
{{- end -}}
{{- if eq (dig "sunk" "action" "warn" $config | toString) "deny" }}
DaemonSets (sunk.action)
{{- end -}}
{{- $topology := dig "topology" dict $config -}}
{{- if and (eq (dig "action" "deny" $topology | toString) "deny") (eq (dig "unapplied" "warn" $topology) "deny") }}
Pods and workloads with topology annotations (topology.unapplied)
{{- end -}}
{{- if eq (dig "deletion" "warn" $topology | toString) "deny" }}
deletions of Topology objects (topology.deletion)
{{- end -}}
{{- range $file, $text := .Values.policies }}
{{- range $part := regexSplit "(?m)^---.*$" $text -1 }}
{{- $document := fromYaml $part }}
{{- if and (has $document.kind (list "ValidatingAdmissionPolicy" "MutatingAdmissionPolicy")) (eq (dig "spec" "failurePolicy" "Fail" $document) "Fail") }}
what the policy {{ $document.metadata.name }} in {{ $file }} matches
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}
