{{/* Names. 52 characters leave room for what is appended, of which a Job's is the longest (63 are allowed). */}}
{{- define "cks-admission.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "cks-admission.fullname" -}}
{{- $name := include "cks-admission.name" . -}}
{{- $both := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{- .Values.fullnameOverride | default $both | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "cks-admission.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "cks-admission.fullname" .) -}}
{{- end -}}

{{- define "cks-admission.manageName" -}}
{{- include "cks-admission.fullname" . }}-manage
{{- end -}}

{{- define "cks-admission.manageAccount" -}}
{{- .Values.manage.serviceAccount.name | default (include "cks-admission.manageName" .) -}}
{{- end -}}

{{/* Whether there is a process that places gangs: where topology annotations count, and the cluster may be read. */}}
{{- define "cks-admission.placer" -}}
{{- if and .Values.cluster.access .Values.placer.enabled (include "cks-admission.on" (dig "topology" "action" "deny" .Values.config)) }}true{{ end -}}
{{- end -}}

{{- define "cks-admission.placerName" -}}
{{- include "cks-admission.fullname" . }}-placer
{{- end -}}

{{- define "cks-admission.placerAccount" -}}
{{- .Values.placer.serviceAccount.name | default (include "cks-admission.placerName" .) -}}
{{- end -}}

{{/* The name of a CronJob has 52 characters at most. */}}
{{- define "cks-admission.auditName" -}}
{{- include "cks-admission.fullname" . | trunc 46 | trimSuffix "-" }}-audit
{{- end -}}

{{- define "cks-admission.auditAccount" -}}
{{- .Values.audit.serviceAccount.name | default (include "cks-admission.auditName" .) -}}
{{- end -}}

{{/* The Secret of the certificates; in mode self that of the CA. */}}
{{- define "cks-admission.secret" -}}
{{- $suffix := eq .Values.certificates.mode "self" | ternary "ca" "tls" -}}
{{- .Values.certificates.secretName | default (printf "%s-%s" (include "cks-admission.fullname" .) $suffix) -}}
{{- end -}}

{{/* The Secret with the certificate that replicas mount. */}}
{{- define "cks-admission.leafSecret" -}}
{{- if ne .Values.certificates.mode "self" -}}
{{- include "cks-admission.secret" . -}}
{{- else -}}
{{- printf "%s-tls" (.Values.certificates.secretName | default (include "cks-admission.fullname" .)) -}}
{{- end -}}
{{- end -}}

{{- define "cks-admission.selector" -}}
app.kubernetes.io/name: {{ include "cks-admission.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: webhook
{{- end -}}

{{/* Labels of all Pods of the release, and what only those of manage have. */}}
{{- define "cks-admission.allPods" -}}
{{- omit (include "cks-admission.selector" . | fromYaml) "app.kubernetes.io/component" | toYaml -}}
{{- end -}}

{{- define "cks-admission.manageSelector" -}}
{{- merge (dict "app.kubernetes.io/component" "manage") (include "cks-admission.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "cks-admission.manageLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "manage") (include "cks-admission.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "cks-admission.placerSelector" -}}
{{- merge (dict "app.kubernetes.io/component" "placer") (include "cks-admission.selector" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "cks-admission.placerLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "placer") (include "cks-admission.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{- define "cks-admission.auditLabels" -}}
{{- merge (dict "app.kubernetes.io/component" "audit") (include "cks-admission.labels" . | fromYaml) | toYaml -}}
{{- end -}}

{{/* Labels of every object; a component's own come before them and win. */}}
{{- define "cks-admission.labels" -}}
{{- $own := include "cks-admission.selector" . | fromYaml -}}
{{- $more := dict
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own $more .Values.commonLabels) -}}
{{- end -}}

{{- define "cks-admission.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository ($image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The names in the certificate, as a list: those by which the API server may call. */}}
{{- define "cks-admission.names" -}}
{{- $service := printf "%s.%s.svc" (include "cks-admission.fullname" .) .Release.Namespace -}}
{{- $names := list $service -}}
{{- with .Values.clusterDomain -}}
{{- $names = append $names (printf "%s.%s" $service .) -}}
{{- end -}}
{{- with dig "registration" "url" "" .Values.config -}}
{{- $names = append $names (regexReplaceAll ":[0-9]+$" (urlParse .).host "" | trimAll "[]") -}}
{{- end -}}
{{- concat $names .Values.certificates.names | uniq | toYaml -}}
{{- end -}}

{{/* The limit in MiB: the process, bytes of bodies, connections at 320 KiB, and its child processes. */}}
{{- define "cks-admission.resources" -}}
{{- $listen := default dict .Values.config.listen -}}
{{- $bytes := dig "maxBytesInFlight" 67108864 $listen | int64 -}}
{{- $connections := dig "maxConnections" 1024 $listen | int64 -}}
{{- $memory := add 128 (div (add $bytes 1048575) 1048576) (div (add (mul $connections 320) 1023) 1024) 256 128 -}}
{{- if .Values.resources -}}
{{- toYaml .Values.resources -}}
{{- else -}}
requests:
  cpu: 100m
  memory: 128Mi
limits:
  memory: {{ $memory }}Mi
{{- end -}}
{{- end -}}

{{/* What the Pods and the Job before the removal have in common: who they are, and where they run. */}}
{{- define "cks-admission.podSecurity" -}}
runAsNonRoot: true
{{- if not .Values.openshift.enabled }}
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "cks-admission.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "cks-admission.placement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $tolerations := .Values.tolerations }}
{{- range list "not-ready" "unreachable" }}
{{- $lost := dict "key" (printf "node.kubernetes.io/%s" .) "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" $.Values.unreachableSeconds }}
{{- $tolerations = append $tolerations $lost }}
{{- end }}
tolerations: {{- toYaml $tolerations | nindent 2 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The ConfigMaps whose files rules are made of, by the folder in which they are mounted. */}}
{{- define "cks-admission.maps" -}}
{{- $name := include "cks-admission.fullname" . -}}
{{- $mounted := include "cks-admission.mountedPolicies" . -}}
{{- $maps := dict "config" $name -}}
{{- range $part := list "policies" "exceptions" "topologies" -}}
{{- if and (index $.Values $part) (or $mounted (eq $part "topologies")) -}}
{{- $_ := set $maps $part (printf "%s-%s" $name $part) -}}
{{- end -}}
{{- end -}}
{{- toYaml $maps -}}
{{- end -}}

{{/* A token of our own, where the cluster is asked: it is for the API server alone and ends after an hour. */}}
{{- define "cks-admission.tokenVolume" -}}
- name: serviceaccount
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
      - downwardAPI: {items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]}
{{- end -}}
