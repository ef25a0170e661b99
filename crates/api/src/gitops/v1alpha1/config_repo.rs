//! ConfigRepo: a directory of a git repository that is applied to the hub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigRepoReport, ConfigRepoStatus, IgnoredFields, NotificationReceiver, TimeWindow};
use crate::{Unknown, names};
use object::Key;

kind! {
    /// A directory of a git repository that the operator renders and applies to the hub. The operator can
    /// also push reports to a branch.
    ConfigRepo {
        group: names::GITOPS_GROUP,
        version: "v1alpha1",
        plural: "configrepos",
        scope: Namespaced,
        spec(required): ConfigRepoSpec,
        status: ConfigRepoStatus,
        columns: [
            ("URL", "string", ".spec.url"),
            ("Path", "string", ".spec.path"),
            ("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status"),
            ("Suspended", "boolean", ".spec.suspend"),
            ("Applied", "string", ".status.applied.commit"),
            ("Message", "string", ".status.conditions[?(@.type==\"Ready\")].message"),
            ("Age", "date", ".metadata.creationTimestamp"),
        ],
    }
}

/// The repository, and the rules for applying and reporting it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.report) || has(self.report.url) || !has(self.ref) || !has(self.ref.branch) || self.report.branch != self.ref.branch",
        "message": "the report needs a separate branch: a report on the followed branch would be a new commit to apply"
    },
    {
        "rule": "!has(self.report) || !has(self.report.secretRef) || !has(self.secretRef) || self.report.secretRef.name != self.secretRef.name",
        "message": "reading and writing require different secrets: rendering must not have write access to the repository"
    },
    {
        "rule": "!has(self.path) || self.path == '' || !has(self.paths) || self.paths.size() == 0",
        "message": "set path or paths, not both"
    }
]))]
pub struct ConfigRepoSpec {
    /// URL of the repository, with `https` or `ssh`, or of the artifacts in a registry, `oci://HOST/REPOSITORY`. If the
    /// operator runs with `--local-repositories`, it can also be a directory of the operator's machine, or an `http` or
    /// `git` URL of its loopback address.
    #[schemars(length(min = 1, max = 2048), extend("pattern" = r"^[^-\s]\S*$"))]
    pub url: String,
    /// The branch, tag, version range or commit to follow. Set exactly one. Default: the branch `main`. With an `oci`
    /// URL, set the tag, version range or digest.
    #[serde(default)]
    #[schemars(extend("default" = {"branch": "main"}))]
    pub r#ref: GitRef,
    /// Directory to render: a kustomization, or plain manifests. If it is empty or `.`, the root of the
    /// repository is rendered.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Directories to render instead of `path`, each on its own. In a pattern such as `clusters/*`, `*` matches any
    /// part of one name, except a leading dot. Each entry must match a directory. The directories share the limits
    /// of one, and no two may contain the same object.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 1024)),
        extend("x-kubernetes-list-type" = "atomic")
    )]
    pub paths: Vec<String>,
    /// Namespace of the namespaced objects that name none, and of the release if `path` is a Helm chart. If empty, the namespace of the
    /// ConfigRepo, and `default` for a release. Releases of a kustomization have their own namespaces. Argo CD calls this
    /// `destination.namespace`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub default_namespace: String,
    /// Time between two fetches, such as `1m`. Shorter times than `1s` count as `1s`. Webhooks and the
    /// annotation `gitops.wheelwright.dev/reconcile-at` trigger additional fetches.
    #[serde(default = "one_minute")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub interval: String,
    /// Secret in the same namespace with the credentials to read the repository. HTTPS uses `username` and
    /// `password`, `token`, `bearerToken`, or the keys of a GitHub App. It also uses `ca.crt`, `tls.crt` and
    /// `tls.key`, and `proxy`. SSH uses `ssh-privatekey` and `known_hosts`. Without a Secret, the operator
    /// sends no credentials. A registry also accepts the key `.dockerconfigjson`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// Signatures that commits must have. If absent, commits need no signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Decryption of files that are encrypted with SOPS. If absent, a commit is refused if its rendering reads
    /// such a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decryption: Option<Decryption>,
    /// Encryption of the Secrets in ManifestWorkReplicaSets and AddOnTemplates. `Plain`: they are not encrypted.
    /// `Sealed`: the hub stores ciphertext, and only the agents of their clusters can decrypt it. A Secret with the
    /// annotation `gitops.wheelwright.dev/secret: plain` is not encrypted. Secrets in ManifestWorks need this
    /// annotation.
    #[serde(default)]
    pub secrets: SecretHandling,
    /// Access to the repositories and registries of remote charts. If absent, the operator sends them no login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub charts: Option<ChartRepositories>,
    /// Enables push webhooks at the path `/webhooks/NAMESPACE/NAME` of the address in the operator's flag
    /// `--git-webhook-listen`. The payload only triggers a fetch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Mode of the operator. `Apply`: it applies the objects to the hub. `Observe`: another tool applies
    /// them. The operator still selects clusters, rolls out changes and reports.
    #[serde(default)]
    pub mode: ConfigRepoMode,
    /// Approval of commits that change objects. `NotRequired`: commits need no approval. `Required`: a commit
    /// waits until a person approves its plan. To approve it, set the annotation
    /// `gitops.wheelwright.dev/approve-plan` to the hash in `status.heldPlan`, which `wheelwright plan` also
    /// shows.
    #[serde(default)]
    pub plan_approval: PlanApproval,
    /// Times during which commits that change objects are not applied. Drift is still corrected, except on
    /// objects that a waiting commit changes. Rollouts continue. To hold them, set `freezeWindows` of a
    /// RolloutPolicy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub freeze_windows: Vec<TimeWindow>,
    /// The only times during which commits that change objects are applied. If the list is empty, they are
    /// applied at any time. Outside the windows, drift is corrected and rollouts continue, as in a freeze
    /// window. A freeze window takes precedence.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub apply_windows: Vec<TimeWindow>,
    /// Deletes objects that were removed from the repository, within the deletion budget. If false, they stay
    /// on the hub.
    #[serde(default = "yes")]
    pub prune: bool,
    /// Number of deletions within a time window that need no approval: the larger of `objects` and `percent`.
    /// If a generated ConfigMap or Secret gets a new hash, it is replaced, which does not count as a
    /// deletion.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub deletion_budget: DeletionBudget,
    /// Rule for an object of the repository that already exists on the hub and that no ConfigRepo owns.
    /// `IfNoDiff`: it is taken over if it matches the repository. Otherwise, the commit is refused. `Always`:
    /// it is taken over. `Never`: the commit is refused. An object that an Argo CD Application tracks is
    /// taken over only with `Always`.
    #[serde(default)]
    pub takeover: Takeover,
    /// Fields that keep their values on the hub, because another client sets them. An object is created with
    /// the values of the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub ignore: Vec<IgnoredFields>,
    /// Rule for a reference that moves to a commit that does not descend from the accepted one. `Refuse`: the
    /// applied commit stays until a person accepts the move. `Allow`: the new commit is applied.
    #[serde(default)]
    pub rewind: RewindPolicy,
    /// Effect on the objects if this ConfigRepo is deleted. `Orphan`: they stay on the hub. `Delete`: they
    /// are deleted. In mode `Observe`, they always stay.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Time in which the objects of a stage must become healthy, such as `5m`. The next stage waits until
    /// they are. After this time, the ConfigRepo is `Stalled` until they become healthy or another commit
    /// repairs them. A rollout to clusters has its own deadlines instead. With `0s`, no stage waits.
    #[serde(default = "five_minutes")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub health_timeout: String,
    /// ConfigRepos in the same namespace that must be ready before a new commit is applied. A ConfigRepo with
    /// the same `url` and `ref` must also have applied the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub depends_on: Vec<Dependency>,
    /// Stops fetching, applying and reporting. Rollouts in progress continue.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Service account in the same namespace that the operator impersonates to apply and delete the objects.
    /// The repository can then contain only objects in this namespace, and none of the API group
    /// `gitops.wheelwright.dev`. If empty, the operator acts as itself. This requires the label
    /// `gitops.wheelwright.dev/operator-identity: allowed` on the namespace.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub service_account_name: String,
    /// Reports and commit statuses to push. If absent, none are pushed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ConfigRepoReport>,
    /// Receivers of a message when the ConfigRepo needs a person, and when it has recovered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 10),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub notifications: Vec<NotificationReceiver>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn one_minute() -> String {
    "1m".into()
}

fn five_minutes() -> String {
    "5m".into()
}

fn yes() -> bool {
    true
}

/// The defaults of the schema, with an empty URL.
impl Default for ConfigRepoSpec {
    fn default() -> Self {
        Self {
            url: String::new(),
            r#ref: GitRef { branch: "main".into(), ..GitRef::default() },
            path: String::new(),
            paths: Vec::new(),
            default_namespace: String::new(),
            interval: one_minute(),
            secret_ref: None,
            verify: None,
            decryption: None,
            secrets: SecretHandling::default(),
            charts: None,
            webhook: None,
            mode: ConfigRepoMode::default(),
            plan_approval: PlanApproval::default(),
            freeze_windows: Vec::new(),
            apply_windows: Vec::new(),
            prune: true,
            deletion_budget: DeletionBudget::default(),
            takeover: Takeover::default(),
            ignore: Vec::new(),
            rewind: RewindPolicy::default(),
            deletion_policy: DeletionPolicy::default(),
            health_timeout: five_minutes(),
            depends_on: Vec::new(),
            suspend: false,
            service_account_name: String::new(),
            report: None,
            notifications: Vec::new(),
            unknown: Unknown::new(),
        }
    }
}

impl ConfigRepo {
    /// Returns true if the objects are deleted with their ConfigRepo. In mode `Observe`, they belong to
    /// another tool.
    pub fn deletes_objects(&self) -> bool {
        self.spec.deletion_policy == DeletionPolicy::Delete && self.spec.mode != ConfigRepoMode::Observe
    }
}

/// The branch, tag, version range, commit or digest to follow. Exactly one is set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "[has(self.branch), has(self.tag), has(self.semver), has(self.commit), has(self.digest)].filter(set, set).size() == 1",
    "message": "name one of branch, tag, semver, commit and digest"
}]))]
pub struct GitRef {
    /// Branch to follow.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// Tag to follow. The tag of a git repository should not move.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub tag: String,
    /// Version range, such as `>=1.2, <2`. The highest tag in the range is followed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub semver: String,
    /// Full hash of the commit to follow, 40 hexadecimal digits. Repositories with SHA-256 hashes are not
    /// supported.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^[0-9a-f]{40}$"))]
    pub commit: String,
    /// Digest of the manifest of an artifact to follow, with an `oci` URL only.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^sha256:[0-9a-f]{64}$"))]
    pub digest: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl GitRef {
    /// Returns the branch, tag, version range, commit or digest to follow.
    pub fn name(&self) -> &str {
        let named = [&self.digest, &self.commit, &self.semver, &self.tag, &self.branch];
        named.into_iter().find(|name| !name.is_empty()).map_or("main", String::as_str)
    }
}

/// A ConfigRepo that another one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// Name of the ConfigRepo.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A Secret in the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the Secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl SecretRef {
    /// Returns the key of the Secret, in the namespace of the ConfigRepo.
    pub fn key(&self, namespace: &str) -> Key {
        let SecretRef { name, unknown: _ } = self;
        Key::namespaced(namespace, name)
    }
}

/// Decryption of files that are encrypted with SOPS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Decryption {
    /// Secret in the same namespace with the private keys. Names that end with `.agekey` contain age keys, names
    /// that end with `.asc` contain OpenPGP keys without a passphrase.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Access to the repositories and registries of remote charts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChartRepositories {
    /// Secret in the same namespace with logins, in the key `.dockerconfigjson` as in the type
    /// `kubernetes.io/dockerconfigjson`. Each login is sent only to the host that it names, and to the token service
    /// of a registry. The Secret can also contain `ca.crt` and `proxy`, instead of those in the Secret of
    /// `spec.secretRef`.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The webhooks that are accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Secret in the same namespace. Its key `token` contains the secret of the webhook in the git server, at
    /// least 16 bytes.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// Signatures that commits must have. A commit without them is neither rendered nor applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Git objects that must be signed. `Range`: every commit since the last accepted one, and the annotated
    /// tag if there is one. The first fetch verifies only the tip. `Tip`: only the object that the reference
    /// points to, which is the annotated tag or the commit.
    #[serde(default)]
    pub mode: VerifyMode,
    /// Secret in the same namespace with the trusted public keys. Names that end with `.asc` contain OpenPGP
    /// keys, `allowed_signers` contains SSH keys (ssh-keygen(1)), and `revoked_keys` contains revoked SSH
    /// keys. A key must be valid at the time of the check. The time in the signature does not count. For artifacts,
    /// names that end with `.pub` contain public keys of cosign, `trusted_root.json` contains the trust root for
    /// `identities`, and `mode` does not count.
    pub secret_ref: SecretRef,
    /// Signers of artifacts who sign with a certificate instead of a key ("keyless"). The Secret must contain the
    /// trust root that proves their certificates. One of the signers or keys is enough.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10), extend("x-kubernetes-list-type" = "atomic"))]
    pub identities: Vec<SignerIdentity>,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A signer of artifacts, as the certificate names it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignerIdentity {
    /// Issuer of the token with which the signer gets a certificate, such as
    /// `https://token.actions.githubusercontent.com`. It must match exactly.
    #[schemars(length(min = 1, max = 1024))]
    pub issuer: String,
    /// Email address or URI of the signer, such as the URL of a workflow. It must match exactly.
    #[schemars(length(min = 1, max = 1024))]
    pub subject: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// Git objects that must be signed.
    pub enum VerifyMode {
        /// Every commit since the last accepted one, and the annotated tag if there is one. The first fetch
        /// verifies only the tip.
        Range = "Range",
        /// The object that the reference points to: the annotated tag, or the commit. A signed merge vouches
        /// for what it merges.
        Tip = "Tip",
    }
}

open_enum! {
    /// The tool that applies the objects of a repository.
    pub enum ConfigRepoMode {
        /// The operator applies them to the hub.
        Apply = "Apply",
        /// Another tool applies them. The operator still selects clusters, rolls out changes and reports.
        Observe = "Observe",
    }
}

open_enum! {
    /// Encryption of the Secrets in ManifestWorkReplicaSets and AddOnTemplates.
    pub enum SecretHandling {
        /// They are not encrypted.
        Plain = "Plain",
        /// They are encrypted for the agents of their clusters.
        Sealed = "Sealed",
    }
}

open_enum! {
    /// Approval of the plan of a commit.
    pub enum PlanApproval {
        /// The commit needs no approval.
        NotRequired = "NotRequired",
        /// The commit waits until a person has approved its plan.
        Required = "Required",
    }
}

/// Number of deletions within a time window that need no approval: the larger of the two numbers. If a
/// generated ConfigMap or Secret gets a new hash, it is replaced, which does not count as a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletionBudget {
    /// Number of objects that can be deleted.
    #[serde(default = "five")]
    #[schemars(range(min = 0))]
    pub objects: i32,
    /// Percentage of the objects that the ConfigRepo owns, rounded down. At most 300 deletions within the
    /// window need no approval, unless the budget covers all objects, as 100 does.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// Time for which a deletion counts, such as `1h`. With `0s`, each commit is counted separately.
    #[serde(default = "one_hour")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub window: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

fn five() -> i32 {
    5
}

fn one_hour() -> String {
    "1h".into()
}

/// The defaults of the schema.
impl Default for DeletionBudget {
    fn default() -> Self {
        Self { objects: 5, percent: 5, window: one_hour(), unknown: Unknown::new() }
    }
}

open_enum! {
    /// Rule for an object of the repository that already exists on the hub and that no ConfigRepo owns.
    pub enum Takeover {
        /// It is taken over if it matches the repository. Otherwise, the commit is refused.
        IfNoDiff = "IfNoDiff",
        /// It is taken over.
        Always = "Always",
        /// The commit is refused.
        Never = "Never",
    }
}

open_enum! {
    /// Rule for a reference that moves to a commit that does not descend from the accepted one.
    pub enum RewindPolicy {
        /// The applied commit stays until a person accepts the move.
        Refuse = "Refuse",
        /// The new commit is applied.
        Allow = "Allow",
    }
}

open_enum! {
    /// Effect on the objects if their ConfigRepo is deleted.
    pub enum DeletionPolicy {
        /// They stay on the hub.
        Orphan = "Orphan",
        /// They are deleted.
        Delete = "Delete",
    }
}
