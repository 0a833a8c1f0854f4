{{/* The Cluster that everything here is for. */}}
{{- define "odradek.cluster" -}}
{{- $name := .Values.cluster.name | default .Release.Name -}}
{{- if or (gt (len $name) 40) (not (regexMatch "^[a-z]" $name)) -}}
{{- fail (printf "cluster.name: %q cannot be a Cluster's name, from which names of Services are made: it must begin with a letter and have at most 40 characters; set cluster.name" $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{- define "odradek.bootstrap" -}}
{{- printf "%s-bootstrap.%s.svc:9092" (include "odradek.cluster" .) .Release.Namespace -}}
{{- end -}}

{{/* The labels that the operator puts on the Cluster's pods. */}}
{{- define "odradek.podLabels" -}}
app.kubernetes.io/name: odradek
app.kubernetes.io/instance: {{ include "odradek.cluster" . }}
odradek.io/cluster: {{ include "odradek.cluster" . }}
{{- end -}}

{{- define "odradek.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" .Chart.Name
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/part-of" "odradek"
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-") -}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{/* labels and annotations of a resource; call with (dict "root" $ "annotations" DICT "labels" DICT), the last two optional. */}}
{{- define "odradek.metadata" -}}
labels:
  {{- toYaml (merge (dict) (.labels | default dict) (fromYaml (include "odradek.labels" .root))) | nindent 2 }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* An image's reference; call with (dict "root" $ "image" .Values.tests.image). */}}
{{- define "odradek.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry -}}
{{- $name := ternary (printf "%s/%s" $registry .image.repository) .image.repository (ne $registry "") -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{/* The pull secrets as a list of objects with `name`. */}}
{{- define "odradek.pullSecrets" -}}
{{- range .Values.global.imagePullSecrets }}
- name: {{ ternary . (get (ternary dict . (kindIs "string" .)) "name") (kindIs "string" .) }}
{{- end }}
{{- end -}}

{{/*
A Topic's spec: its own fields before the defaults, and key by key in `config`. Not by `merge`, for which false and 0 are nothing.
Call with (dict "cluster" NAME "own" DICT "defaults" DICT).
*/}}
{{- define "odradek.topicSpec" -}}
{{- $spec := deepCopy (.defaults | default dict) -}}
{{- range $key, $value := .own -}}
{{- if and (eq $key "config") (hasKey $spec "config") -}}
{{- range $setting, $wanted := $value -}}
{{- $_ := set $spec.config $setting $wanted -}}
{{- end -}}
{{- else -}}
{{- $_ := set $spec $key $value -}}
{{- end -}}
{{- end -}}
{{- $_ := set $spec "cluster" .cluster -}}
{{- toYaml $spec -}}
{{- end -}}

{{/*
The Cluster's spec: as it is given, with ZooKeeper run by the operator unless one is named, and with the pull secrets that are common
to all images in every pod that names none of its own.
*/}}
{{- define "odradek.clusterSpec" -}}
{{- $spec := deepCopy .Values.cluster.spec -}}
{{- if not $spec.zookeeper -}}
{{- $_ := set $spec "zookeeper" (dict "servers" dict) -}}
{{- end -}}
{{- $secrets := fromYamlArray (include "odradek.pullSecrets" .) -}}
{{- if $secrets -}}
{{- range $part := list "brokers" "controllers" -}}
{{- $_ := set $spec $part (get $spec $part | default dict) -}}
{{- include "odradek.withPullSecrets" (dict "part" (get $spec $part) "secrets" $secrets) -}}
{{- end -}}
{{- if hasKey $spec "console" -}}
{{- $_ := set $spec "console" ($spec.console | default dict) -}}
{{- include "odradek.withPullSecrets" (dict "part" $spec.console "secrets" $secrets) -}}
{{- end -}}
{{- if hasKey $spec.zookeeper "servers" -}}
{{- $_ := set $spec.zookeeper "servers" ($spec.zookeeper.servers | default dict) -}}
{{- include "odradek.withPullSecrets" (dict "part" $spec.zookeeper.servers "secrets" $secrets) -}}
{{- end -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* A Mirror's spec: as it is given, into this release's Cluster unless a target is named. Call with (dict "root" $ "own" DICT). */}}
{{- define "odradek.mirrorSpec" -}}
{{- $spec := deepCopy (.own | default dict) -}}
{{- $target := $spec.target | default dict -}}
{{- if not (or $target.cluster $target.bootstrap) -}}
{{- $_ := set $target "cluster" (include "odradek.cluster" .root) -}}
{{- end -}}
{{- $_ := set $spec "target" $target -}}
{{- $secrets := fromYamlArray (include "odradek.pullSecrets" .root) -}}
{{- if $secrets -}}
{{- include "odradek.withPullSecrets" (dict "part" $spec "secrets" $secrets) -}}
{{- end -}}
{{- toYaml $spec -}}
{{- end -}}

{{/* Sets the pull secrets of a part's pod, in place; writes nothing. */}}
{{- define "odradek.withPullSecrets" -}}
{{- $pod := get .part "pod" | default dict -}}
{{- if not (hasKey $pod "imagePullSecrets") -}}
{{- $_ := set $pod "imagePullSecrets" .secrets -}}
{{- end -}}
{{- $_ := set .part "pod" $pod -}}
{{- end -}}

{{/* Where the runbook of an alert is: call with (dict "root" $ "url" URL "alert" NAME). Empty where no address is known. */}}
{{- define "odradek.runbook" -}}
{{- if contains "{alert}" .url -}}
{{- replace "{alert}" .alert .url -}}
{{- else if .url -}}
{{- printf "%s%s" .url .alert -}}
{{- else if .root.Chart.Home -}}
{{- printf "%s/blob/v%s/docs/runbooks/%s.md" (trimSuffix "/" .root.Chart.Home) .root.Chart.AppVersion .alert -}}
{{- end -}}
{{- end -}}
