{{/* The rights of the replicas: of each only what the configuration makes use of. They read, ask the authorizer, and tell owners of refusals. */}}
{{- define "cks-admission.clusterRules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- $name := $all.registration.name -}}
{{- $topology := ne (include "cks-admission.on" (dig "topology" "action" "deny" $all)) "" -}}
{{- $deletion := ne (include "cks-admission.on" (dig "topology" "deletion" "warn" $all)) "" -}}
{{- include "cks-admission.factRules" $all }}
{{- if $topology }}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors]
  verbs: [list]
{{- end }}
{{- $refusals := dig "events" "refusals" true $all }}
{{- if and (include "cks-admission.schedulesWorkloads" $all) (not (or $deletion $refusals)) }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [list]
{{- end }}
{{- if $refusals }}
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- if or $refusals (and $topology $deletion) }}
{{- range (.Files.Get "files/workloads.yaml" | fromYamlArray) }}
- apiGroups: [{{ .group | quote }}]
  resources: {{ toJson .resources }}
  verbs: [list]
{{- end }}
{{- range (include "cks-admission.workloads" . | fromYamlArray) }}
{{- if .templates }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ include "cks-admission.plural" .kind }}]
  verbs: [list]
{{- end }}
{{- end }}
{{- end }}
{{- if or (dig "configMaps" true $all.policies) (dig "native" true $all.policies) $all.policies.directories }}
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- include "cks-admission.nativeRules" $all }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ $name }}]
  verbs: [list, watch]
{{- with .Values.rbac.parameters }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The rights to follow what rules look at beside an object; the argument is the configuration. */}}
{{- define "cks-admission.factRules" -}}
{{- $topology := ne (include "cks-admission.on" (dig "topology" "action" "deny" .)) "" -}}
{{- $selectors := ne (include "cks-admission.on" (dig "selectors" "action" "warn" .)) "" -}}
{{- $sunk := and (include "cks-admission.on" (dig "sunk" "action" "warn" .)) (include "cks-admission.on" (dig "sunk" "daemonSets" "warn" .)) -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceclaims, resourceclaimtemplates]
  verbs: [list, watch]
{{- if or $topology $sunk $selectors }}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- if $selectors }}
- apiGroups: [compute.coreweave.com, karpenter.sh]
  resources: [nodepools]
  verbs: [list, watch]
{{- end }}
{{- if $topology }}
- apiGroups: [kai.scheduler, kueue.x-k8s.io]
  resources: [topologies]
  verbs: [list, watch]
- apiGroups: [grove.io]
  resources: [clustertopologybindings, clustertopologies]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{/* The rights of the placer: to read what decides where gangs start, to open gates, and to tell owners. A policy of the API
     server (templates/fence.yaml) says what patches of Pods may change. */}}
{{- define "cks-admission.placerClusterRules" -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get, list, watch]
- apiGroups: [resource.k8s.io]
  resources: [deviceclasses, resourceclaims, resourceclaimtemplates]
  verbs: [list, watch]
- apiGroups: [kai.scheduler, kueue.x-k8s.io]
  resources: [topologies]
  verbs: [list, watch]
- apiGroups: [grove.io]
  resources: [clustertopologybindings, clustertopologies]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
- apiGroups: [scheduling.k8s.io]
  resources: [priorityclasses]
  verbs: [list, watch]
{{- range (.Files.Get "files/placed.yaml" | fromYamlArray) }}
- apiGroups: [{{ .group | quote }}]
  resources: {{ toJson .resources }}
  verbs: [list, watch]
{{- end }}
{{- range (include "cks-admission.workloads" . | fromYamlArray) }}
{{- if .templates }}
- apiGroups: [{{ .group | quote }}]
  resources: [{{ include "cks-admission.plural" .kind }}]
  verbs: [list, watch]
{{- end }}
{{- end }}
{{- end -}}

{{- define "cks-admission.placerRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "cks-admission.placerName" . }}]
  verbs: [get, update]
{{- end -}}

{{- define "cks-admission.nativeRules" -}}
{{- if dig "native" true .policies }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  verbs: [list, watch]
{{- end }}
{{- end -}}

{{/* The rights of manage, which writes. A creation cannot be limited to a name. */}}
{{- define "cks-admission.manageClusterRules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- $verbs := list "list" "watch" -}}
{{- if or $all.registration.apply $all.registration.caOnly -}}
{{- $verbs = list "get" "list" "watch" "patch" -}}
{{- end -}}
- apiGroups: [""]
  resources: [namespaces]
  verbs: [list, watch]
{{- include "cks-admission.nativeRules" $all }}
{{- if $all.registration.apply }}
{{- $verbs = concat $verbs (list "update" "delete") }}
- apiGroups: [admissionregistration.k8s.io]
  resources:
    - mutatingwebhookconfigurations
    - validatingwebhookconfigurations
    - validatingadmissionpolicies
    - validatingadmissionpolicybindings
  verbs: [create]
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames: [{{ $all.registration.name }}]
  verbs: {{ toJson $verbs }}
{{- end }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ $all.registration.name }}]
  verbs: {{ toJson $verbs }}
{{- if and (include "cks-admission.schedulesWorkloads" $all) (not (or $all.registration.apply $all.registration.caOnly)) }}
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations]
  resourceNames: [{{ $all.registration.name }}]
  verbs: [patch]
{{- end }}
{{- with $all.registration.owner }}
- apiGroups: [rbac.authorization.k8s.io]
  resources: [clusterroles]
  resourceNames: [{{ . }}]
  verbs: [get]
{{- end }}
{{- $tolerations := ne (include "cks-admission.on" (dig "tolerations" "action" "warn" $all)) "" -}}
{{- $topology := ne (include "cks-admission.on" (dig "topology" "action" "deny" $all)) "" -}}
{{- if $topology }}
- apiGroups: [kai.scheduler, kueue.x-k8s.io]
  resources: [topologies]
  verbs: [list, watch]
- apiGroups: [grove.io]
  resources: [clustertopologybindings, clustertopologies]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
{{- $waits := and (or $all.tls.secret $all.registration.apply $all.registration.caOnly) (or $tolerations $topology) }}
{{- if $waits }}
- apiGroups: [""]
  resources: [pods]
  verbs: [list]
{{- end }}
{{- if or $waits (dig "native" true $all.policies) }}
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- end -}}

{{/* The rights of the replicas in the release's namespace; empty where none are needed. */}}
{{- define "cks-admission.rules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- if dig "configMaps" true $all.policies }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- if include "cks-admission.placer" . }}
# Readiness says whether there is a placer.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ include "cks-admission.placerName" . }}]
  verbs: [get]
{{- end }}
{{- end -}}

{{- define "cks-admission.manageRules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- if dig "configMaps" true $all.policies }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
{{- with dig "audit" "record" "" $all }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ . | quote }}]
  verbs: [get]
{{- end }}
{{- if and (dig "topology" "facts" "" $all) (include "cks-admission.on" (dig "topology" "action" "deny" $all)) }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create]
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ $all.topology.facts | quote }}]
  verbs: [get, update]
{{- end }}
{{- with $all.tls.secret }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [{{ . }}, {{ $all.manage.secret }}]
  verbs: [list, watch, update]
{{- end }}
{{- if include "cks-admission.schedulesWorkloads" $all }}
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create]
- apiGroups: [scheduling.k8s.io]
  resources: [podgroups]
  verbs: [create]
{{- end }}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ $all.cluster.lease }}]
  verbs: [get, update]
{{- end -}}

{{/* The rights of the audit: to read what it judges and what rules look at, and to write reports and Events. */}}
{{- define "cks-admission.auditClusterRules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- include "cks-admission.factRules" $all }}
{{- if include "cks-admission.on" (dig "topology" "action" "deny" $all) }}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors]
  verbs: [list]
{{- end }}
{{- if dig "native" true $all.policies }}
- apiGroups: [admissionregistration.k8s.io]
  resources:
    - validatingadmissionpolicies
    - validatingadmissionpolicybindings
    - mutatingadmissionpolicies
    - mutatingadmissionpolicybindings
  verbs: [list]
{{- end }}
- apiGroups: [openreports.io]
  resources: [reports, clusterreports]
  verbs: [list, create, patch, delete]
- apiGroups: [wgpolicyk8s.io]
  resources: [policyreports, clusterpolicyreports]
  verbs: [list, create, patch, delete]
{{- if dig "events" "findings" true $all }}
- apiGroups: [""]
  resources: [events]
  verbs: [create]
{{- end }}
# Owners are read one by one.
{{- range .Values.audit.kinds | default (list (dict "group" "*" "resources" (list "*"))) }}
- apiGroups: [{{ .group | quote }}]
  resources: {{ toJson .resources }}
  verbs: [get, list]
{{- end }}
{{- with .Values.rbac.parameters }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "cks-admission.auditRules" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- if dig "configMaps" true $all.policies }}
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
{{- end }}
{{- with dig "audit" "record" "" $all }}
- apiGroups: [""]
  resources: [configmaps]
  resourceNames: [{{ . | quote }}]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/* Whether placements may be left to Kubernetes' own scheduling; YAML reads on as true. */}}
{{- define "cks-admission.schedulesWorkloads" -}}
{{- $chosen := toString (dig "topology" "workloadScheduling" "off" .) -}}
{{- if and (include "cks-admission.on" (dig "topology" "action" "deny" .)) (has $chosen (list "on" "true")) }}true{{ end -}}
{{- end -}}

{{/* Whether an action is not off, which YAML reads as false. */}}
{{- define "cks-admission.on" -}}
{{- if and . (ne (toString .) "off") }}true{{ end -}}
{{- end -}}

{{/* The rows of config.workloads; one that is shipped stands there by its name alone. */}}
{{- define "cks-admission.workloads" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- $shipped := .Files.Get "files/shipped.yaml" | fromYaml -}}
{{- $rows := list -}}
{{- range $all.workloads }}{{ $rows = append $rows (kindIs "string" . | ternary (get $shipped (toString .)) .) }}{{ end -}}
{{- toJson $rows -}}
{{- end -}}

{{/* The usual name of a kind's resource, as policies/objects/workload.py makes it. */}}
{{- define "cks-admission.plural" -}}
{{- $kind := lower . -}}
{{- if regexMatch "(^|[^aeiou])y$" $kind -}}
{{ trimSuffix "y" $kind }}ies
{{- else if regexMatch "(s|x|ch|sh)$" $kind -}}
{{ $kind }}es
{{- else -}}
{{ $kind }}s
{{- end -}}
{{- end -}}
