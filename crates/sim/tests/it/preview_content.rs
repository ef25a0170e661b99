//! The content of commits whose previews are compared with reality.

use serde_json::{Value, json};

use api::names::GITOPS_GROUP;
use object::Random;
use object::tree::FileTree;
use sim::history::{Content, SetContent};

/// The index of the policy that requires approvals. It is drawn most often.
pub(crate) const ASKS: usize = 0;
/// The specs of the policies in commits.
const POLICIES: [&str; 5] = [
    r#"{"approval": {"mode": "BetweenGroups"}}"#,
    r#"{"soak": "4s", "groupSoak": "6s"}"#,
    r#"{"rollOut": "InstallAndContent"}"#,
    r#"{"paused": true}"#,
    "{}",
];

/// The content of a history with a ManifestWorkReplicaSet and a RolloutPolicy.
pub(crate) struct FleetContent {
    pub(crate) content: Content,
    pub(crate) set: Option<SetContent>,
    /// The index of its policy.
    pub(crate) policy: Option<usize>,
}

impl FleetContent {
    /// Draws the content of the first commit.
    pub(crate) fn first(random: &mut Random) -> Self {
        let content = Content::first(random);
        let set = random.chance(700).then(|| SetContent::first(random));
        Self { content, set, policy: policy(random) }
    }

    /// Changes the content as the next commit does.
    pub(crate) fn change(&mut self, random: &mut Random) {
        self.content.broken = false;
        match random.below(10) {
            0..5 => self.content.change(random),
            5..8 => {
                let mut set = self.set.unwrap_or_else(|| SetContent::first(random));
                set.change(random);
                self.set = random.chance(900).then_some(set);
            }
            _ => self.policy = policy(random),
        }
    }

    /// Returns the files of the commit.
    pub(crate) fn files(&self) -> FileTree {
        let mut files = self.content.files();
        if let Some(set) = &self.set {
            files.insert("set.yaml", set.object().to_string().into_bytes());
        }
        if let Some(rules) = self.policy {
            let spec: Value = serde_json::from_str(POLICIES[rules]).unwrap();
            let policy = json!({"apiVersion": format!("{GITOPS_GROUP}/v1alpha1"), "kind": "RolloutPolicy",
                "metadata": {"name": "p"}, "spec": spec});
            files.insert("policy.yaml", policy.to_string().into_bytes());
        }
        files
    }
}

fn policy(random: &mut Random) -> Option<usize> {
    let rules = if random.chance(300) { ASKS } else { usize::try_from(random.below(5)).unwrap() };
    random.chance(850).then_some(rules)
}
