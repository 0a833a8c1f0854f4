{{/* The chart's short name. */}}
{{- define "operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* What resources are called: the release's name, with the chart's behind it unless it is part of it. */}}
{{- define "operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "operator.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "operator.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "operator.serviceAccountName" -}}
{{- default (include "operator.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{/*
What selectors use: it never changes in the life of a release, so no version and no user's labels or names. The network policies
that the operator makes let it in by this name.
*/}}
{{- define "operator.selectorLabels" -}}
app.kubernetes.io/name: odradek-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "operator.labels" -}}
{{- $own := fromYaml (include "operator.selectorLabels" .) -}}
{{- $_ := set $own "app.kubernetes.io/component" "operator" -}}
{{- $_ := set $own "app.kubernetes.io/part-of" "odradek" -}}
{{- $_ := set $own "app.kubernetes.io/version" .Chart.AppVersion -}}
{{- $_ := set $own "app.kubernetes.io/managed-by" .Release.Service -}}
{{- $_ := set $own "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{/* A pod's labels: without the chart's version, which would make new pods for a change that is none of theirs. */}}
{{- define "operator.podLabels" -}}
{{- $own := omit (fromYaml (include "operator.labels" .)) "helm.sh/chart" "app.kubernetes.io/managed-by" -}}
{{- toYaml (merge $own .Values.podLabels) -}}
{{- end -}}

{{/* labels and annotations of a resource; call with (dict "root" $ "annotations" DICT "labels" DICT), the last two optional. */}}
{{- define "operator.metadata" -}}
labels:
  {{- toYaml (merge (dict) (.labels | default dict) (fromYaml (include "operator.labels" .root))) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image's reference; call with (dict "root" $ "image" .Values.image). */}}
{{- define "operator.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry -}}
{{- $name := ternary (printf "%s/%s" $registry .image.repository) .image.repository (ne $registry "") -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "operator.pullSecrets" -}}
{{- range .Values.global.imagePullSecrets }}
- name: {{ ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .) }}
{{- end }}
{{- end -}}

{{/* The pods' security, without users and groups where the platform gives them. */}}
{{- define "operator.podSecurity" -}}
{{- /* Values that are reused from an older release have no runAs. */ -}}
{{- $isAssigned := eq (.Values.runAs | default dict).assigned true -}}
{{- toYaml (ternary (omit .Values.podSecurityContext "runAsUser" "runAsGroup" "fsGroup") .Values.podSecurityContext $isAssigned) -}}
{{- end -}}

{{/* Where a job's pod runs: as the operator's does. */}}
{{- define "operator.jobPlacement" -}}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The namespaces that are watched, as a JSON list; empty when all are. */}}
{{- define "operator.namespaces" -}}
{{- if .Values.watch.allNamespaces -}}
[]
{{- else -}}
{{- .Values.watch.namespaces | default (list .Release.Namespace) | toJson -}}
{{- end -}}
{{- end -}}

{{/* The operator's settings, as its command reads them from the environment. */}}
{{- define "operator.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
{{- range $name, $value := dict
  "NAMESPACES" (include "operator.namespaces" . | fromJsonArray | join " ")
  "LOG_LEVEL" .Values.settings.logLevel
  "LOG_FORMAT" .Values.settings.logFormat
  "WORKERS" .Values.settings.workers
  "RESYNC_SECONDS" .Values.settings.resyncSeconds
  "CLUSTER_DOMAIN" .Values.settings.clusterDomain
  "BROKER_IMAGE" (include "operator.image" (dict "root" . "image" .Values.brokerImage))
  "ZOOKEEPER_IMAGE" (include "operator.image" (dict "root" . "image" .Values.zookeeperImage)) }}
- name: ODRADEK_OPERATOR_RUN_{{ $name }}
  value: {{ toString $value | quote }}
{{- end }}
{{- end -}}

{{/* Where the runbook of an alert is: call with (dict "root" $ "url" URL "alert" NAME). Empty where no address is known. */}}
{{- define "operator.runbook" -}}
{{- if contains "{alert}" .url -}}
{{- replace "{alert}" .alert .url -}}
{{- else if .url -}}
{{- printf "%s%s" .url .alert -}}
{{- else if .root.Chart.Home -}}
{{- printf "%s/blob/v%s/docs/runbooks/%s.md" (trimSuffix "/" .root.Chart.Home) .root.Chart.AppVersion .alert -}}
{{- end -}}
{{- end -}}
