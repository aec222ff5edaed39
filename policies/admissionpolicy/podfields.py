"""The fields of a Pod as Kubernetes' own types have them, and an object written as those types would write it.

A Pod that a controller creates from a template has been through those types: zero values are gone where they mean
nothing, quantities are written in their canonical form, some fields are always there. A template in a custom resource
has not been. Generated from k8s.io/api/core/v1/types.go v0.36.3 (reflection over PodTemplateSpec) and compared with the
API server in tests/cluster/test_pod_defaults.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from policies.cel.errors import CelError
from policies.cel.library import quantity
from policies.cel.library.amount import Large, round_up
from policies.engine.request import JsonObject

_MILLI = 3  # no finer unit than a thousandth is kept (SetDefaults_ResourceList)
_ZERO_VALUES: Mapping[str, Any] = {"text": "", "int": 0, "bool": False}

# A type and its fields: `=` names the type of a field (`[` a list of it, `{` a map of it, `!` a struct or quantity that
# is always written), `?` a field that is left out where it has its zero value, `:` one that is written even then.
# Fields that are pointers to plain values, and texts of no interest, are not named: they stay as they are.
_TABLE = """
AWSElasticBlockStoreVolumeSource fsType? partition? readOnly? volumeID:text
Affinity nodeAffinity=NodeAffinity podAffinity=PodAffinity podAntiAffinity=PodAntiAffinity
AppArmorProfile type:text
AzureDiskVolumeSource diskName:text diskURI:text
AzureFileVolumeSource readOnly? secretName:text shareName:text
CSIVolumeSource driver:text nodePublishSecretRef=LocalObjectReference volumeAttributes?
Capabilities add? drop?
CephFSVolumeSource path? readOnly? secretFile? secretRef=LocalObjectReference user?
CinderVolumeSource fsType? readOnly? secretRef=LocalObjectReference volumeID:text
ClusterTrustBundleProjection labelSelector=LabelSelector path:text
ConfigMapEnvSource name?
ConfigMapKeySelector key:text name?
ConfigMapProjection items=[KeyToPath? name?
ConfigMapVolumeSource items=[KeyToPath? name?
Container args? command? env=[EnvVar? envFrom=[EnvFromSource? image? imagePullPolicy? lifecycle=Lifecycle
    livenessProbe=Probe name:text ports=[ContainerPort? readinessProbe=Probe resizePolicy=[ContainerResizePolicy?
    resources=ResourceRequirements! restartPolicyRules=[ContainerRestartRule? securityContext=SecurityContext
    startupProbe=Probe stdin? stdinOnce? terminationMessagePath? terminationMessagePolicy? tty?
    volumeDevices=[VolumeDevice? volumeMounts=[VolumeMount? workingDir?
ContainerPort containerPort:int hostIP? hostPort? name? protocol?
ContainerResizePolicy resourceName:text restartPolicy:text
ContainerRestartRule action? exitCodes=ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes operator? values?
DownwardAPIProjection items=[DownwardAPIVolumeFile?
DownwardAPIVolumeFile fieldRef=ObjectFieldSelector path:text resourceFieldRef=ResourceFieldSelector
DownwardAPIVolumeSource items=[DownwardAPIVolumeFile?
EmptyDirVolumeSource medium? sizeLimit=Quantity
EnvFromSource configMapRef=ConfigMapEnvSource prefix? secretRef=SecretEnvSource
EnvVar name:text value? valueFrom=EnvVarSource
EnvVarSource configMapKeyRef=ConfigMapKeySelector fieldRef=ObjectFieldSelector fileKeyRef=FileKeySelector
    resourceFieldRef=ResourceFieldSelector secretKeyRef=SecretKeySelector
EphemeralContainer args? command? env=[EnvVar? envFrom=[EnvFromSource? image? imagePullPolicy? lifecycle=Lifecycle
    livenessProbe=Probe name:text ports=[ContainerPort? readinessProbe=Probe resizePolicy=[ContainerResizePolicy?
    resources=ResourceRequirements! restartPolicyRules=[ContainerRestartRule? securityContext=SecurityContext
    startupProbe=Probe stdin? stdinOnce? targetContainerName? terminationMessagePath? terminationMessagePolicy? tty?
    volumeDevices=[VolumeDevice? volumeMounts=[VolumeMount? workingDir?
EphemeralVolumeSource volumeClaimTemplate=PersistentVolumeClaimTemplate
ExecAction command?
FCVolumeSource fsType? readOnly? targetWWNs? wwids?
FileKeySelector key:text path:text volumeName:text
FlexVolumeSource driver:text fsType? options? readOnly? secretRef=LocalObjectReference
FlockerVolumeSource datasetName? datasetUUID?
GCEPersistentDiskVolumeSource fsType? partition? pdName:text readOnly?
GRPCAction port:int
GitRepoVolumeSource directory? repository:text revision?
GlusterfsVolumeSource endpoints:text path:text readOnly?
HTTPGetAction host? httpHeaders=[HTTPHeader? path? scheme?
HTTPHeader name:text value:text
HostAlias hostnames? ip:text
HostPathVolumeSource path:text
ISCSIVolumeSource chapAuthDiscovery? chapAuthSession? fsType? iqn:text iscsiInterface? lun:int portals? readOnly?
    secretRef=LocalObjectReference targetPortal:text
ImageVolumeSource pullPolicy? reference?
KeyToPath key:text path:text
LabelSelector matchExpressions=[LabelSelectorRequirement? matchLabels?
LabelSelectorRequirement key:text operator:text values?
Lifecycle postStart=LifecycleHandler preStop=LifecycleHandler
LifecycleHandler exec=ExecAction httpGet=HTTPGetAction sleep=SleepAction tcpSocket=TCPSocketAction
LocalObjectReference name?
NFSVolumeSource path:text readOnly? server:text
NodeAffinity preferredDuringSchedulingIgnoredDuringExecution=[PreferredSchedulingTerm?
    requiredDuringSchedulingIgnoredDuringExecution=NodeSelector
NodeSelector nodeSelectorTerms=[NodeSelectorTerm
NodeSelectorRequirement key:text operator:text values?
NodeSelectorTerm matchExpressions=[NodeSelectorRequirement? matchFields=[NodeSelectorRequirement?
ObjectFieldSelector apiVersion? fieldPath:text
ObjectMeta annotations? finalizers? generateName? generation? labels? name? namespace?
    ownerReferences=[OwnerReference? resourceVersion? selfLink? uid?
OwnerReference apiVersion:text kind:text name:text uid:text
PersistentVolumeClaimSpec accessModes? dataSource=TypedLocalObjectReference dataSourceRef=TypedObjectReference
    resources=VolumeResourceRequirements! selector=LabelSelector volumeName?
PersistentVolumeClaimTemplate metadata=ObjectMeta! spec=PersistentVolumeClaimSpec!
PersistentVolumeClaimVolumeSource claimName:text readOnly?
PhotonPersistentDiskVolumeSource fsType? pdID:text
PodAffinity preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm?
    requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm?
PodAffinityTerm labelSelector=LabelSelector matchLabelKeys? mismatchLabelKeys? namespaceSelector=LabelSelector
    namespaces? topologyKey:text
PodAntiAffinity preferredDuringSchedulingIgnoredDuringExecution=[WeightedPodAffinityTerm?
    requiredDuringSchedulingIgnoredDuringExecution=[PodAffinityTerm?
PodCertificateProjection certificateChainPath? credentialBundlePath? keyPath? keyType? signerName? userAnnotations?
PodDNSConfig nameservers? options=[PodDNSConfigOption? searches?
PodDNSConfigOption name?
PodOS name:text
PodReadinessGate conditionType:text
PodResourceClaim name:text
PodSchedulingGate name:text
PodSecurityContext appArmorProfile=AppArmorProfile seLinuxOptions=SELinuxOptions seccompProfile=SeccompProfile
    supplementalGroups? sysctls=[Sysctl?
PodSpec affinity=Affinity containers=[Container dnsConfig=PodDNSConfig dnsPolicy?
    ephemeralContainers=[EphemeralContainer? hostAliases=[HostAlias? hostIPC? hostNetwork? hostPID? hostname?
    imagePullSecrets=[LocalObjectReference? initContainers=[Container? nodeName? nodeSelector? os=PodOS
    overhead={Quantity? priorityClassName? readinessGates=[PodReadinessGate? resourceClaims=[PodResourceClaim?
    resources=ResourceRequirements restartPolicy? schedulerName? schedulingGates=[PodSchedulingGate?
    securityContext=PodSecurityContext serviceAccount? serviceAccountName? subdomain? tolerations=[Toleration?
    topologySpreadConstraints=[TopologySpreadConstraint? volumes=[Volume?
Pod metadata=ObjectMeta! spec=PodSpec!
PortworxVolumeSource fsType? readOnly? volumeID:text
PreferredSchedulingTerm preference=NodeSelectorTerm! weight:int
Probe exec=ExecAction failureThreshold? grpc=GRPCAction httpGet=HTTPGetAction initialDelaySeconds? periodSeconds?
    successThreshold? tcpSocket=TCPSocketAction timeoutSeconds?
ProjectedVolumeSource sources=[VolumeProjection
QuobyteVolumeSource group? readOnly? registry:text tenant? user? volume:text
RBDVolumeSource fsType? image:text keyring? pool? readOnly? secretRef=LocalObjectReference user?
ResourceClaim name:text request?
ResourceFieldSelector containerName? divisor=Quantity! resource:text
ResourceRequirements claims=[ResourceClaim? limits={Quantity? requests={Quantity?
SELinuxOptions level? role? type? user?
ScaleIOVolumeSource fsType? gateway:text protectionDomain? readOnly? secretRef=LocalObjectReference sslEnabled?
    storageMode? storagePool? system:text volumeName?
SeccompProfile type:text
SecretEnvSource name?
SecretKeySelector key:text name?
SecretProjection items=[KeyToPath? name?
SecretVolumeSource items=[KeyToPath? secretName?
SecurityContext appArmorProfile=AppArmorProfile capabilities=Capabilities seLinuxOptions=SELinuxOptions
    seccompProfile=SeccompProfile
ServiceAccountTokenProjection audience? path:text
SleepAction seconds:int
StorageOSVolumeSource fsType? readOnly? secretRef=LocalObjectReference volumeName? volumeNamespace?
Sysctl name:text value:text
TCPSocketAction host?
Toleration effect? key? operator? value?
TopologySpreadConstraint labelSelector=LabelSelector matchLabelKeys? maxSkew:int topologyKey:text
    whenUnsatisfiable:text
TypedLocalObjectReference kind:text name:text
TypedObjectReference kind:text name:text
Volume awsElasticBlockStore=AWSElasticBlockStoreVolumeSource azureDisk=AzureDiskVolumeSource
    azureFile=AzureFileVolumeSource cephfs=CephFSVolumeSource cinder=CinderVolumeSource
    configMap=ConfigMapVolumeSource csi=CSIVolumeSource downwardAPI=DownwardAPIVolumeSource
    emptyDir=EmptyDirVolumeSource ephemeral=EphemeralVolumeSource fc=FCVolumeSource flexVolume=FlexVolumeSource
    flocker=FlockerVolumeSource gcePersistentDisk=GCEPersistentDiskVolumeSource gitRepo=GitRepoVolumeSource
    glusterfs=GlusterfsVolumeSource hostPath=HostPathVolumeSource image=ImageVolumeSource iscsi=ISCSIVolumeSource
    name:text nfs=NFSVolumeSource persistentVolumeClaim=PersistentVolumeClaimVolumeSource
    photonPersistentDisk=PhotonPersistentDiskVolumeSource portworxVolume=PortworxVolumeSource
    projected=ProjectedVolumeSource quobyte=QuobyteVolumeSource rbd=RBDVolumeSource scaleIO=ScaleIOVolumeSource
    secret=SecretVolumeSource storageos=StorageOSVolumeSource vsphereVolume=VsphereVirtualDiskVolumeSource
VolumeDevice devicePath:text name:text
VolumeMount mountPath:text name:text readOnly? subPath? subPathExpr?
VolumeProjection clusterTrustBundle=ClusterTrustBundleProjection configMap=ConfigMapProjection
    downwardAPI=DownwardAPIProjection podCertificate=PodCertificateProjection secret=SecretProjection
    serviceAccountToken=ServiceAccountTokenProjection
VolumeResourceRequirements limits={Quantity? requests={Quantity?
VsphereVirtualDiskVolumeSource fsType? storagePolicyID? storagePolicyName? volumePath:text
WeightedPodAffinityTerm podAffinityTerm=PodAffinityTerm! weight:int
"""


class Fields(Struct, frozen=True):
    """The fields of a type.

    omitted: left out where they have their zero value. always: written, with this value where there is none.
    types: those of the fields that need a look inside.
    """

    omitted: frozenset[str]
    always: Mapping[str, Any]
    types: Mapping[str, str]


def _fields(tokens: list[str]) -> Fields:
    omitted, always, types = set(), dict[str, Any](), dict[str, str]()
    for token in tokens:
        plain = token.removesuffix("?")
        name, _, type_ = plain.partition("=")
        name, _, zero = name.partition(":")
        if plain != token:
            omitted.add(name)
        if zero:
            always[name] = _ZERO_VALUES[zero]
        if type_:
            types[name] = type_.removesuffix("!")
        if type_.endswith("!"):
            always[name] = "0" if type_ == "Quantity!" else {}
    return Fields(frozenset(omitted), always, types)


def _parsed() -> Mapping[str, Fields]:
    rows = _TABLE.strip().replace("\n    ", " ").splitlines()
    return {name: _fields(tokens) for name, *tokens in map(str.split, rows)}


TYPES = _parsed()


def written(value: Any, type_: str) -> Any:
    """A value as the type would write it; the value itself is not changed, and what is not of the type stays."""
    if type_ == "Quantity":
        return canonical(value)
    if type_.startswith("["):
        return [written(item, type_[1:]) for item in value] if isinstance(value, list) else value
    if type_.startswith("{"):
        return _resource_list(value) if isinstance(value, dict) else value
    return _struct(value, TYPES[type_]) if isinstance(value, dict) else value


def _struct(value: JsonObject, fields: Fields) -> JsonObject:
    result = {
        name: written(child, fields.types[name]) if name in fields.types else child
        for name, child in value.items()
        if child is not None and (child or name not in fields.omitted)
    }
    for name, zero in fields.always.items():
        if name not in result:
            result[name] = written(dict(zero), fields.types[name]) if isinstance(zero, dict) else zero
    return result


def _resource_list(value: JsonObject) -> JsonObject:
    return {name: canonical("0" if amount is None else amount, _MILLI) for name, amount in value.items()}


def canonical(value: Any, places: int | None = None) -> Any:
    """A quantity as Kubernetes writes it, rounded up to so many places; what is none stays as it is."""
    found = quantity_of(value)
    if found is None:
        return value
    if places is not None and round_up(found.amount.decimal, places) != found.amount.decimal:
        found = quantity.Quantity(Large(round_up(found.amount.decimal, places), places), found.form)
    return str(found)


def quantity_of(value: Any) -> quantity.Quantity | None:
    """The quantity that a text or a number stands for, None if it is none."""
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        return quantity.read(str(value))
    except CelError:
        return None
