//! Snapshots of large fleets, which have no objects that a plan does not ask for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fleet::PreviewWorkload;
use super::scope::PreviewScope;
use api::names::CONFIG_REPO_ANNOTATION;
use engine::report::SnapshotReader;
use object::{Gvk, Object, fields};

/// Objects of add-ons and sets on clusters up to which a snapshot leaves none out.
const FEW: usize = 2_000;

/// The objects that a snapshot of a large fleet lacks, because no plan has asked for them yet.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The scope that is read.
    read: PreviewScope,
    /// How many more objects are taken, whatever they belong to.
    room: usize,
    kinds: BTreeSet<Gvk>,
    workloads: BTreeSet<PreviewWorkload>,
    /// The add-ons on clusters that name a configuration.
    naming: BTreeMap<String, BTreeSet<PreviewWorkload>>,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self { room: FEW, ..Self::but(PreviewScope::default()) }
    }
}

impl LeftOut {
    /// Leaves out the objects of all but a scope.
    pub fn but(scope: PreviewScope) -> Self {
        let (kinds, workloads, naming) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { read: scope, room: 0, kinds, workloads, naming }
    }

    /// Returns what is not left out.
    pub(super) fn read_scope(&self) -> &PreviewScope {
        &self.read
    }

    /// Returns whether a snapshot takes an object. It looks at the fields of [`Outline`] alone.
    pub fn takes(&mut self, object: &Object) -> bool {
        let Some(workload) = PreviewWorkload::on_cluster(object) else { return true };
        // A plan from a report asks whether it has what ConfigRepos own.
        if object.annotations().contains_key(CONFIG_REPO_ANNOTATION) {
            return true;
        }
        if self.room > 0 || self.read.loads(object) {
            self.room = self.room.saturating_sub(1);
            return true;
        }
        self.kinds.insert(object.gvk());
        let configs = object.at(&["spec", "configs"]).and_then(Value::as_array);
        for name in configs.into_iter().flatten().filter_map(|config| config["name"].as_str()) {
            self.naming.entry(name.to_owned()).or_default().insert(workload.clone());
        }
        self.workloads.insert(workload);
        false
    }

    /// Reads an object of JSON, unless it is left out: then it is read in outline alone.
    ///
    /// # Errors
    /// The text is no object.
    pub fn read(&mut self, json: &RawValue) -> serde_json::Result<Option<Object>> {
        if !self.takes(&serde_json::from_str::<Outline>(json.get())?.object()?) {
            return Ok(None);
        }
        let mut object = serde_json::from_str(json.get())?;
        fields::pack(&mut object);
        Ok(Some(object))
    }

    /// Reads the objects of a file of a report's snapshot, but those that are left out.
    ///
    /// # Errors
    /// Those of the reader.
    pub fn read_reported(
        &mut self,
        reader: &mut SnapshotReader,
        file: &str,
    ) -> serde_json::Result<Vec<Object>> {
        let outline = |object: &Object| object.to_typed::<Outline>().ok()?.object().ok();
        reader.read_taken(file, outline, |outline| self.takes(outline))
    }

    /// Returns the kinds of which an object is left out.
    pub fn kinds(&self) -> &BTreeSet<Gvk> {
        &self.kinds
    }

    /// Returns the add-ons that name a configuration on a cluster.
    pub(super) fn naming(&self, name: &str) -> impl Iterator<Item = &PreviewWorkload> {
        self.naming.get(name).into_iter().flatten()
    }

    /// Returns whether an object of a scope is left out.
    pub(super) fn lacks(&self, scope: &PreviewScope) -> bool {
        self.workloads.iter().any(|workload| scope.has(workload))
    }
}

/// The fields of an object that say whether it is left out.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outline {
    api_version: String,
    kind: String,
    #[serde(default)]
    metadata: OutlineMetadata,
    #[serde(default)]
    spec: OutlineSpec,
}

impl Outline {
    fn object(&self) -> serde_json::Result<Object> {
        serde_json::from_value(serde_json::to_value(self)?)
    }
}

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct OutlineMetadata {
    name: String,
    namespace: String,
    labels: Value,
    annotations: Value,
    owner_references: Value,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct OutlineSpec {
    configs: Value,
    workload: OutlineWorkload,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct OutlineWorkload {
    manifests: Vec<OutlineManifest>,
}

#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct OutlineManifest {
    kind: String,
}
