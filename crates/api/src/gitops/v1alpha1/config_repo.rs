//! ConfigRepo: a directory of a git repository that is applied to the hub.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ConfigRepoReport, ConfigRepoStatus, IgnoredFields, TimeWindow};
use crate::{Unknown, names};
use object::Key;

kind! {
    /// A directory of a git repository whose objects are rendered and applied to the hub, and what is
    /// reported back.
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

/// The repository, and how it is applied and reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "!has(self.report) || has(self.report.url) || !has(self.ref) || !has(self.ref.branch) || self.report.branch != self.ref.branch",
        "message": "the report needs a branch of its own: a report on the branch that is followed would be a new commit to apply"
    },
    {
        "rule": "!has(self.report) || !has(self.report.secretRef) || !has(self.secretRef) || self.report.secretRef.name != self.secretRef.name",
        "message": "reading and writing need different secrets: what renders the repository must not be able to write to it"
    }
]))]
pub struct ConfigRepoSpec {
    /// URL of the repository, with https or ssh; with the operator's flag `--local-repositories` also a
    /// directory of its machine, and http and git on its loopback.
    #[schemars(length(min = 1, max = 2048), extend("pattern" = r"^[^-\s]\S*$"))]
    pub url: String,
    /// The branch, tag, range of versions or commit that is followed.
    #[serde(default)]
    #[schemars(extend("default" = {"branch": "main"}))]
    pub r#ref: GitRef,
    /// Directory that is rendered: a kustomization, or plain manifests; empty or `.` for the root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 1024))]
    pub path: String,
    /// Time between two fetches, such as 1m. Notifications come on top.
    #[serde(default = "one_minute")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub interval: String,
    /// Secret of the same namespace with the credentials to read: username and password or token, or
    /// ssh-privatekey and known_hosts; for https also ca.crt, tls.crt and tls.key, and proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
    /// The signatures that commits must have; commits need none if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Lets webhooks of the git server ask for a fetch, at the address that the operator's flag
    /// --git-webhook-listen names and the path /webhooks/NAMESPACE/NAME. A webhook is a hint: nothing of it
    /// is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Whether the objects are applied, or only watched because another tool applies them.
    #[serde(default)]
    pub mode: ConfigRepoMode,
    /// Whether a commit that changes objects waits until a person approves its plan, with the annotation
    /// gitops.wheelwright.dev/approve-plan. Its value is the hash that `status.heldPlan` and `wheelwright plan`
    /// show.
    #[serde(default)]
    pub plan_approval: PlanApproval,
    /// Times at which no commit is applied that changes objects. Drift from the applied commit is
    /// corrected, but not of objects that a new commit changes, and rollouts go on: the freezeWindows of a
    /// RolloutPolicy hold those.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub freeze_windows: Vec<TimeWindow>,
    /// The times at which commits that change objects are applied; any time if there is no window. A freeze
    /// window has precedence. Between the windows, drift is corrected and rollouts go on, as in a freeze.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub apply_windows: Vec<TimeWindow>,
    /// Deletes objects that left the repository, within the deletion budget.
    #[serde(default = "yes")]
    pub prune: bool,
    /// The number of deletions within a window of time that need no approval.
    #[serde(default)]
    #[schemars(extend("default" = {}))]
    pub deletion_budget: DeletionBudget,
    /// The rule for an object of the repository that somebody else created.
    #[serde(default)]
    pub takeover: Takeover,
    /// Fields that are left as they are on the hub, because others set them. An object is created with the
    /// values of the repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
    pub ignore: Vec<IgnoredFields>,
    /// The rule for a reference that moves to a commit that does not descend from the one applied.
    #[serde(default)]
    pub rewind: RewindPolicy,
    /// The rule for the objects when this object is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// Time that the objects of a stage may take to become healthy, as kstatus judges them, such as 5m. A
    /// stage that is not healthy holds the next; after that time a person is needed. With 0s, no stage waits.
    #[serde(default = "five_minutes")]
    #[schemars(extend("pattern" = names::DURATION_PATTERN))]
    pub health_timeout: String,
    /// ConfigRepos of the same namespace that must be ready before a new commit is applied. Those of the same
    /// repository and reference must have applied the same commit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 50),
        extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
    )]
    pub depends_on: Vec<Dependency>,
    /// Stops fetching, applying and reporting; rollouts under way go on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub suspend: bool,
    /// Service account of the same namespace that the operator impersonates to apply and delete the objects.
    /// It confines the ConfigRepo to its namespace. Empty: the operator acts as itself, if the namespace has
    /// the label gitops.wheelwright.dev/operator-identity: allowed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 253))]
    pub service_account_name: String,
    /// The branch that gets reports; there are none if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<ConfigRepoReport>,
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

/// The values of the schema; the URL is empty.
impl Default for ConfigRepoSpec {
    fn default() -> Self {
        Self {
            url: String::new(),
            r#ref: GitRef { branch: "main".into(), ..GitRef::default() },
            path: String::new(),
            interval: one_minute(),
            secret_ref: None,
            verify: None,
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
            unknown: Unknown::new(),
        }
    }
}

impl ConfigRepo {
    /// Returns whether the objects are deleted with their ConfigRepo. In mode Observe they belong to another
    /// tool.
    pub fn deletes_objects(&self) -> bool {
        self.spec.deletion_policy == DeletionPolicy::Delete && self.spec.mode != ConfigRepoMode::Observe
    }
}

/// The branch, tag, range of versions or commit that is followed: one of the four.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "[has(self.branch), has(self.tag), has(self.semver), has(self.commit)].filter(set, set).size() == 1",
    "message": "name one of branch, tag, semver and commit"
}]))]
pub struct GitRef {
    /// The tip of a branch.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub branch: String,
    /// A tag, which should not move.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub tag: String,
    /// The highest tag within a range of versions, such as ">=1.2, <2".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 255))]
    pub semver: String,
    /// One commit, by its whole name. Repositories whose names are SHA-256 cannot be fetched.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("pattern" = "^[0-9a-f]{40}$"))]
    pub commit: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl GitRef {
    /// Returns the branch, tag, range of versions or commit that is followed.
    pub fn name(&self) -> &str {
        let named = [&self.commit, &self.semver, &self.tag, &self.branch];
        named.into_iter().find(|name| !name.is_empty()).map_or("main", String::as_str)
    }
}

/// A ConfigRepo that another one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dependency {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// A secret of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SecretRef {
    /// Name of the secret.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

impl SecretRef {
    /// Returns the Secret, which is in the namespace of the ConfigRepo.
    pub fn key(&self, namespace: &str) -> Key {
        let SecretRef { name, unknown: _ } = self;
        Key::namespaced(namespace, name)
    }
}

/// The webhooks that are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    /// Secret of the same namespace with the key token: 16 bytes or more that the git server knows too.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

/// The signatures that commits must have. A commit without them is neither rendered nor applied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// The Git objects that must be signed.
    #[serde(default)]
    pub mode: VerifyMode,
    /// Secret of the same namespace with the public keys that are trusted: OpenPGP keys in names that end
    /// with .asc, SSH keys in allowed_signers (ssh-keygen(1)), and SSH keys that are revoked in revoked_keys.
    /// A key must be valid now, whatever time the signature claims.
    pub secret_ref: SecretRef,
    /// Fields this version does not know.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: Unknown,
}

open_enum! {
    /// The Git objects that must be signed.
    pub enum VerifyMode {
        /// Every commit since the one that was accepted last, and the annotated tag if there is one. A first
        /// fetch verifies the tip.
        Range = "Range",
        /// The object that the reference points to: the annotated tag, or the commit. A signed merge vouches
        /// for what it merges.
        Tip = "Tip",
    }
}

open_enum! {
    /// Whether the operator or another tool applies the objects of a repository.
    pub enum ConfigRepoMode {
        /// They are applied to the hub.
        Apply = "Apply",
        /// Another tool applies them; clusters are chosen, changes rolled out and reported all the same.
        Observe = "Observe",
    }
}

open_enum! {
    /// Whether a commit waits for the approval of its plan.
    pub enum PlanApproval {
        /// It is applied at once.
        NotRequired = "NotRequired",
        /// It is applied when a person has approved its plan.
        Required = "Required",
    }
}

/// The number of deletions within a window of time that need no approval: the larger of the two numbers. A
/// generated ConfigMap or Secret whose hash has changed is replaced, and counts as no deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletionBudget {
    /// Number of objects.
    #[serde(default = "five")]
    #[schemars(range(min = 0))]
    pub objects: i32,
    /// Percentage of the objects that were applied. At most 300 objects are deleted without an approval
    /// within the window, but 100 sets no limit.
    #[serde(default = "five")]
    #[schemars(range(min = 0, max = 100))]
    pub percent: i32,
    /// How long a deletion counts, such as 1h. With 0s, each commit counts alone.
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

/// The values of the schema.
impl Default for DeletionBudget {
    fn default() -> Self {
        Self { objects: 5, percent: 5, window: one_hour(), unknown: Unknown::new() }
    }
}

open_enum! {
    /// The rule for an object of the repository that somebody else created.
    pub enum Takeover {
        /// It is taken over if it is as the repository wants it.
        IfNoDiff = "IfNoDiff",
        /// It is taken over.
        Always = "Always",
        /// It is left alone, and a condition says so.
        Never = "Never",
    }
}

open_enum! {
    /// The rule for a reference that moves to a commit that does not descend from the one applied.
    pub enum RewindPolicy {
        /// The commit that is applied stays, until a person accepts the new one.
        Refuse = "Refuse",
        /// The commit is applied.
        Allow = "Allow",
    }
}

open_enum! {
    /// The rule for the objects when their ConfigRepo is deleted.
    pub enum DeletionPolicy {
        /// They stay.
        Orphan = "Orphan",
        /// They are deleted.
        Delete = "Delete",
    }
}
