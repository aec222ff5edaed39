{{/* Values that contradict each other. A text says what was found and what to set. */}}
{{- define "cks-admission.check" -}}
{{- include "cks-admission.checkConfig" . -}}
{{- include "cks-admission.checkCertificates" . -}}
{{- include "cks-admission.checkRegistration" . -}}
{{- include "cks-admission.checkScale" . -}}
{{- range $part := list "policies" "exceptions" "topologies" "shadow" -}}
{{- range $file, $_ := index $.Values $part -}}
{{- if not (regexMatch "^[-._a-zA-Z0-9]+[.](yaml|yml|json)$" $file) -}}
{{- fail (printf "%s: %q is no name for a file: letters, digits, - _ and . at most, and .yaml, .yml or .json at the end (with --set write the dot as \\.)" $part $file) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.cluster.access (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.create is false and no name is given: set serviceAccount.name to the account that the service shall use" -}}
{{- end -}}
{{- if and .Values.cluster.access (not .Values.manage.serviceAccount.create) (not .Values.manage.serviceAccount.name) -}}
{{- fail "manage.serviceAccount.create is false and no name is given: set manage.serviceAccount.name to the account that manage shall use" -}}
{{- end -}}
{{- include "cks-admission.checkPlacer" . -}}
{{- if and .Values.audit.enabled (not .Values.cluster.access) -}}
{{- fail "audit.enabled reads the cluster, which needs cluster.access: set cluster.access to true, or audit.enabled to false" -}}
{{- end -}}
{{- if and .Values.audit.enabled (not .Values.audit.serviceAccount.create) (not .Values.audit.serviceAccount.name) -}}
{{- fail "audit.serviceAccount.create is false and no name is given: set audit.serviceAccount.name to the account that the audit shall use" -}}
{{- end -}}
{{- if and .Values.monitoring.podMonitor.enabled .Values.monitoring.serviceMonitor.enabled -}}
{{- fail "monitoring.podMonitor and monitoring.serviceMonitor are both on, so that all would be counted twice: turn one off" -}}
{{- end -}}
{{- end -}}

{{/* Keys of the configuration that values of the chart say, since more than the configuration depends on them. */}}
{{- define "cks-admission.checkConfig" -}}
{{- $instead := dict
  "cluster.kubeconfig" "cluster.access"
  "cluster.inCluster" "cluster.access"
  "cluster.serviceAccount" "cluster.access"
  "cluster.namespace" "the namespace of the release (helm --namespace)"
  "cluster.lease" "fullnameOverride"
  "manage.apart" "cluster.access"
  "manage.secret" "certificates.secretName"
  "manage.pods" "nameOverride"
  "place.apart" "placer.enabled"
  "place.lease" "fullnameOverride"
  "tls.certFile" "certificates.mode"
  "tls.keyFile" "certificates.mode"
  "tls.directory" "certificates.mode"
  "tls.secret" "certificates.secretName"
  "tls.names" "certificates.names"
  "tls.clientCaFile" "clientCa"
  "registration.apply" "registration.mode"
  "registration.caOnly" "registration.mode"
  "registration.name" "fullnameOverride"
  "registration.service" "fullnameOverride"
  "registration.servicePort" "service.port"
  "registration.caFile" "certificates.caKey or certificates.caBundle"
  "registration.injectCaFrom" "certificates.certManager.injectCa"
  "registration.owner" "rbac.create"
  "topology.files" "topologies"
  "policies.directories" "policies and exceptions"
  "policies.shadow" "shadow" -}}
{{- range $key, $value := $instead -}}
{{- $path := splitList "." $key -}}
{{- if hasKey (dig (first $path) dict $.Values.config) (last $path) -}}
{{- fail (printf "config.%s is set by the chart: set %s instead" $key $value) -}}
{{- end -}}
{{- end -}}
{{- range list "listen" "health" -}}
{{- if eq 0 (int (dig . "port" 1 $.Values.config)) -}}
{{- fail (printf "config.%s.port is 0, any free port: a Pod needs one that is known, such as 9443" .) -}}
{{- end -}}
{{- $host := dig . "host" "" $.Values.config -}}
{{- if regexMatch "^(127[.].*|localhost|::1)$" $host -}}
{{- fail (printf "config.%s.host is %s, which nobody reaches from outside of the Pod: leave it out, or set it to 0.0.0.0 or ::" . $host) -}}
{{- end -}}
{{- end -}}
{{- $port := int (dig "listen" "port" 9443 .Values.config) -}}
{{- if eq $port (int (dig "health" "port" 8081 .Values.config)) -}}
{{- fail (printf "config.listen.port and config.health.port are both %d: set one of them to another port" $port) -}}
{{- end -}}
{{- end -}}

{{- define "cks-admission.checkCertificates" -}}
{{- $chosen := .Values.certificates -}}
{{- if and (eq $chosen.mode "self") (not .Values.cluster.access) -}}
{{- fail "certificates.mode self keeps its CA in a Secret, which needs cluster.access: set certificates.mode to certManager or secret, or cluster.access to true" -}}
{{- end -}}
{{- if and (eq $chosen.mode "self") $chosen.caBundle -}}
{{- fail "certificates.caBundle is given, but in certificates.mode self the service makes the CA: leave it empty, or choose the mode secret" -}}
{{- end -}}
{{- if and (eq $chosen.mode "secret") (not $chosen.secretName) -}}
{{- fail "certificates.mode is secret: set certificates.secretName to the Secret with tls.crt and tls.key" -}}
{{- end -}}
{{- if and $chosen.certManager.issuerRef (ne $chosen.mode "certManager") -}}
{{- fail (printf "certificates.certManager.issuerRef is given, but certificates.mode is %s: set it to certManager" $chosen.mode) -}}
{{- end -}}
{{- if and (eq $chosen.mode "certManager") $chosen.certManager.injectCa $chosen.caBundle -}}
{{- fail "certificates.caBundle is given, and cert-manager would overwrite it: set certificates.certManager.injectCa to false, or leave caBundle empty" -}}
{{- end -}}
{{- if and .Values.clientCa.configMap .Values.clientCa.bundle -}}
{{- fail "clientCa.configMap and clientCa.bundle are both given: keep one of them" -}}
{{- end -}}
{{- end -}}

{{- define "cks-admission.checkRegistration" -}}
{{- $mode := .Values.registration.mode -}}
{{- if and (eq $mode "managed") (not .Values.cluster.access) -}}
{{- fail "registration.mode managed writes webhook configurations, which needs cluster.access: set registration.mode to rendered or none, or cluster.access to true" -}}
{{- end -}}
{{- if and .Values.registration.configurations (ne $mode "rendered") -}}
{{- fail (printf "registration.configurations is given, but registration.mode is %s: set it to rendered" $mode) -}}
{{- end -}}
{{- if and (eq $mode "rendered") (not .Values.cluster.access) (not (include "cks-admission.injectCaFrom" .)) (hasPrefix "tls/" (include "cks-admission.caFile" .)) -}}
{{- $more := eq .Values.certificates.mode "certManager" | ternary "certificates.certManager.injectCa to true" "certificates.caKey to \"\" where the API server's system roots vouch for the certificate" -}}
{{- fail (printf "without cluster.access nobody would tell the API server of the CA in the Secret: give certificates.caBundle, or set %s" $more) -}}
{{- end -}}
{{- if include "cks-admission.inStore" . -}}
{{- range $key, $value := dict "policies" .Values.policies "exceptions" .Values.exceptions -}}
{{- if $value -}}
{{- fail (include "cks-admission.needsExport" $key) -}}
{{- end -}}
{{- end -}}
{{- range list "labels" "topology" "tolerations" "sunk" "policies" "workloads" "organization" "safety" -}}
{{- if index $.Values.config . -}}
{{- fail (include "cks-admission.needsExport" (printf "config.%s" .)) -}}
{{- end -}}
{{- end -}}
{{- if contains " off" (include "cks-admission.packModes" .) -}}
{{- fail (include "cks-admission.needsExport" "config.packs with a pack that is off") -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cks-admission.needsExport" -}}
{{- printf "registration.mode is rendered, and the chart has webhook configurations for the default rules only, but %s is given: set registration.mode to managed, or registration.configurations to what `cks-admission export webhook-configuration` prints for your configuration (helm --set-file registration.configurations=FILE)" . -}}
{{- end -}}

{{- define "cks-admission.checkScale" -}}
{{- $scale := .Values.autoscaling -}}
{{- if $scale.enabled -}}
{{- if gt (int $scale.minReplicas) (int $scale.maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas is %v, more than autoscaling.maxReplicas, which is %v: raise the one or lower the other" $scale.minReplicas $scale.maxReplicas) -}}
{{- end -}}
{{- if and .Values.resources (not (dig "requests" "cpu" "" .Values.resources)) -}}
{{- fail "autoscaling goes by the CPU that is requested: set resources.requests.cpu" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "cks-admission.checkPlacer" -}}
{{- if and (include "cks-admission.gates" .) (not .Values.placer.enabled) -}}
{{- fail "placer.enabled is false, so that nobody would open the gates of Pods that wait for their gang: set it to true, or config.topology.placement to entries for all topologies whose ways are without gate, such as [{ways: [kueue, workload, affinity]}], or config.topology.action to off" -}}
{{- end -}}
{{- if and (include "cks-admission.placer" .) (not .Values.placer.serviceAccount.create) (not .Values.placer.serviceAccount.name) -}}
{{- fail "placer.serviceAccount.create is false and no name is given: set placer.serviceAccount.name to the account that the placer shall use, and no other process" -}}
{{- end -}}
{{- if include "cks-admission.placer" . -}}
{{- range $key, $account := dict "serviceAccount" (include "cks-admission.serviceAccount" .) "manage.serviceAccount" (include "cks-admission.manageAccount" .) -}}
{{- if eq $account (include "cks-admission.placerAccount" $) -}}
{{- fail (printf "placer.serviceAccount and %s are the same account, %s, which could then open gates and more: give the placer one of its own" $key $account) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
