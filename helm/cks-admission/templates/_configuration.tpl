{{/*
The configuration of the service: what the values come to, with `config` over it. All templates take what they need to know
from here, so that ports, rights and mounts are those of the configuration that is in force.
*/}}
{{- define "cks-admission.configuration" -}}
{{- $own := dict
  "listen" (dict "port" 9443)
  "health" (dict "port" 8081)
  "tls" (include "cks-admission.tls" . | fromYaml)
  "cluster" (include "cks-admission.cluster" . | fromYaml)
  "manage" (include "cks-admission.manage" . | fromYaml)
  "place" (include "cks-admission.place" . | fromYaml)
  "registration" (include "cks-admission.registration" . | fromYaml)
  "policies" (include "cks-admission.policySources" . | fromYaml) -}}
{{- with .Values.topologies -}}
{{- $_ := set $own "topology" (dict "files" (list "topologies")) -}}
{{- end -}}
{{- if .Values.audit.enabled -}}
{{- $_ := set $own "audit" (dict "record" (include "cks-admission.auditName" .)) -}}
{{- end -}}
{{- with .Values.tracing.endpoint -}}
{{- $_ := set $own "tracing" (dict "endpoint" . "share" $.Values.tracing.share) -}}
{{- end -}}
{{- toYaml (mustMergeOverwrite $own (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "cks-admission.tls" -}}
{{- if eq .Values.certificates.mode "self" }}
secret: {{ include "cks-admission.secret" . }}
names: {{- include "cks-admission.names" . | nindent 2 }}
{{- end }}
certFile: tls/tls.crt
keyFile: tls/tls.key
{{- if or .Values.clientCa.configMap .Values.clientCa.bundle }}
clientCaFile: client-ca/ca.crt
{{- end }}
{{- end -}}

{{- define "cks-admission.cluster" -}}
namespace: {{ .Release.Namespace }}
{{- if .Values.cluster.access }}
inCluster: true
serviceAccount: serviceaccount
lease: {{ include "cks-admission.fullname" . }}
{{- end }}
{{- end -}}

{{/* What `manage` does apart from the replicas: with cluster.access, for otherwise nothing is written. */}}
{{- define "cks-admission.manage" -}}
apart: {{ .Values.cluster.access }}
{{- if eq .Values.certificates.mode "self" }}
secret: {{ include "cks-admission.leafSecret" . }}
{{- end }}
{{- $labels := list }}
{{- range $key, $value := include "cks-admission.selector" . | fromYaml }}
{{- $labels = append $labels (printf "%s=%s" $key $value) }}
{{- end }}
pods: {{ join "," $labels }}
{{- end -}}

{{/* Who places gangs: `place`, apart from the replicas. */}}
{{- define "cks-admission.place" -}}
{{- if include "cks-admission.placer" . }}
apart: true
lease: {{ include "cks-admission.placerName" . }}
{{- end }}
{{- end -}}

{{/* Whether Pods may get a gate: unless one of the entries of topology.placement is for all, and none has the gate. */}}
{{- define "cks-admission.gates" -}}
{{- $topology := default dict .Values.config.topology -}}
{{- $gates := list -}}
{{- $closed := false -}}
{{- range default list $topology.placement -}}
{{- $ways := default (list "gate") .ways -}}
{{- if has "gate" $ways -}}{{- $gates = append $gates "gate" -}}{{- end -}}
{{- if and (has "*" (default (list "*") .topologies)) (not .namespaceSelector) -}}{{- $closed = true -}}{{- end -}}
{{- end -}}
{{- if and .Values.cluster.access (include "cks-admission.on" (dig "action" "deny" $topology)) (or $gates (not $closed)) }}true{{ end -}}
{{- end -}}

{{- define "cks-admission.registration" -}}
{{- $name := include "cks-admission.fullname" . -}}
{{- $managed := eq .Values.registration.mode "managed" -}}
apply: {{ $managed }}
caOnly: {{ include "cks-admission.caOnly" . | eq "true" }}
name: {{ $name }}
service: {{ $name }}
servicePort: {{ .Values.service.port }}
{{- if and $managed .Values.rbac.create }}
owner: {{ $name }}
{{- end }}
{{- with include "cks-admission.injectCaFrom" . }}
injectCaFrom: {{ . }}
{{- end }}
{{- with include "cks-admission.caFile" . }}
caFile: {{ . }}
{{- end }}
{{- end -}}

{{/* Whether the service fills in the caBundle of configurations that the chart renders: the chart does not know the CA. */}}
{{- define "cks-admission.caOnly" -}}
{{- $knows := or (eq .Values.certificates.mode "self") (hasPrefix "tls/" (include "cks-admission.caFile" .)) -}}
{{- $needed := and (eq .Values.registration.mode "rendered") (not (include "cks-admission.injectCaFrom" .)) -}}
{{- if and .Values.cluster.access $knows $needed }}true{{ end -}}
{{- end -}}

{{/* The Certificate whose CA cert-manager writes into caBundle; empty where it does not. */}}
{{- define "cks-admission.injectCaFrom" -}}
{{- if and (eq .Values.certificates.mode "certManager") .Values.certificates.certManager.injectCa -}}
{{- .Release.Namespace }}/{{ include "cks-admission.fullname" . }}
{{- end -}}
{{- end -}}

{{/* The file with the CA of the mounted certificate; empty where there is none. */}}
{{- define "cks-admission.caFile" -}}
{{- $chosen := .Values.certificates -}}
{{- if $chosen.caBundle -}}
config/ca-bundle.crt
{{- else if eq $chosen.mode "certManager" -}}
tls/ca.crt
{{- else if and (eq $chosen.mode "secret") $chosen.caKey -}}
tls/{{ $chosen.caKey }}
{{- end -}}
{{- end -}}

{{/*
Webhook configurations that the chart has in store know nothing of policies, so the cluster's are left alone then: the API
server would not ask about them.
*/}}
{{- define "cks-admission.policySources" -}}
{{- if .Values.shadow }}
shadow: [shadow]
{{- end }}
{{- if and .Values.cluster.access (include "cks-admission.inStore" .) }}
configMaps: false
native: false
{{- else if include "cks-admission.mountedPolicies" . }}
directories: [{{ if .Values.policies }}policies{{ if .Values.exceptions }}, {{ end }}{{ end }}{{ if .Values.exceptions }}exceptions{{ end }}]
{{- end }}
{{- end -}}

{{/* Whether policies and exceptions are mounted as files: the service does not look for ConfigMaps. */}}
{{- define "cks-admission.mountedPolicies" -}}
{{- $followed := and .Values.cluster.access (dig "policies" "configMaps" true .Values.config) -}}
{{- if and (or .Values.policies .Values.exceptions) (not $followed) }}true{{ end -}}
{{- end -}}

{{/* Whether the webhook configurations are those that the chart has in store. */}}
{{- define "cks-admission.inStore" -}}
{{- if and (eq .Values.registration.mode "rendered") (not .Values.registration.configurations) }}true{{ end -}}
{{- end -}}

{{/* The mode of each pack, for people. YAML reads off as false. */}}
{{- define "cks-admission.packModes" -}}
{{- $modes := list -}}
{{- range $name := list "interruptable-qos" "scheduling-safety" "sunk" -}}
{{- $modes = append $modes (printf "%s %s" $name (include "cks-admission.packMode" (dig "packs" $name "warn" $.Values.config))) -}}
{{- end -}}
{{- join ", " $modes -}}
{{- end -}}

{{- define "cks-admission.packMode" -}}
{{- $mode := ternary (dig "mode" "warn" (ternary . dict (kindIs "map" .))) . (kindIs "map" .) -}}
{{- ternary "off" (toString $mode) (eq (toString $mode) "false") -}}
{{- end -}}

{{/* What a running process does not take over: a change of it replaces the Pods. */}}
{{- define "cks-admission.needsRestart" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- $kept := pick $all "listen" "health" "tls" "cluster" "manage" "place" "decisions" "tracing" "events" "log" -}}
{{- $_ := set $kept "registration" (omit $all.registration "timeoutSeconds" "openTimeoutSeconds" "essentialTimeoutSeconds") -}}
{{- $_ := set $kept "policies" (pick $all.policies "directories" "configMaps" "native" "kubernetes" "slow" "shadow") -}}
{{- toJson $kept -}}
{{- end -}}

{{/* Likewise for `place`, which reads its configuration once. */}}
{{- define "cks-admission.placerNeedsRestart" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- pick $all "health" "cluster" "place" "log" "topology" "tolerations" "workloads" | toJson -}}
{{- toJson .Values.topologies -}}
{{- end -}}

{{/* The port of the receiver of traces; empty without one. */}}
{{- define "cks-admission.tracingPort" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- with dig "tracing" "endpoint" "" $all -}}
{{- $port := regexFind ":[0-9]+$" (urlParse .).host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (hasPrefix "https:" .)) $port -}}
{{- end -}}
{{- end -}}

{{/* Seconds that a Pod may take to end: the port stays open, requests finish, and a margin for all that comes after. */}}
{{- define "cks-admission.endSeconds" -}}
{{- $all := include "cks-admission.configuration" . | fromYaml -}}
{{- add (ceil (addf (dig "drainSeconds" 5 $all.listen) (dig "graceSeconds" 20 $all.listen))) 10 -}}
{{- end -}}
