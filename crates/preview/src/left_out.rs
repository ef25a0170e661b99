//! Snapshots of large fleets that leave out objects until a plan asks for them.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::fleet::PreviewWorkload;
use super::scope::PreviewScope;
use api::names::CONFIG_REPO_ANNOTATION;
use engine::report::SnapshotReader;
use object::{Gvk, Object, fields};

/// The number of per-cluster objects of add-ons and sets up to which a snapshot leaves none out.
const FEW: usize = 2_000;

/// The objects missing from a snapshot of a large fleet, because no plan has asked for them yet.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// The scope that is read.
    read: PreviewScope,
    /// The number of further objects to read regardless of scope.
    room: usize,
    kinds: BTreeSet<Gvk>,
    workloads: BTreeSet<PreviewWorkload>,
    /// The add-ons on clusters, by the names of their configurations.
    naming: BTreeMap<String, BTreeSet<PreviewWorkload>>,
}

impl Default for LeftOut {
    fn default() -> Self {
        Self { room: FEW, ..Self::but(PreviewScope::default()) }
    }
}

impl LeftOut {
    /// Leaves out the objects of everything outside a scope.
    pub fn but(scope: PreviewScope) -> Self {
        let (kinds, workloads, naming) = (BTreeSet::new(), BTreeSet::new(), BTreeMap::new());
        Self { read: scope, room: 0, kinds, workloads, naming }
    }

    pub(super) fn read_scope(&self) -> &PreviewScope {
        &self.read
    }

    /// Returns true if the snapshot includes an object, judging only by the fields of [`Outline`].
    pub fn takes(&mut self, object: &Object) -> bool {
        let Some(workload) = PreviewWorkload::on_cluster(object) else { return true };
        // Plans from a report check that it contains the objects that ConfigRepos own.
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

    /// Reads an object from JSON. Returns `None` for an object that is left out, after reading only its outline.
    ///
    /// # Errors
    /// Fails if the text is not a JSON object.
    pub fn read(&mut self, json: &RawValue) -> serde_json::Result<Option<Object>> {
        if !self.takes(&serde_json::from_str::<Outline>(json.get())?.object()?) {
            return Ok(None);
        }
        let mut object = serde_json::from_str(json.get())?;
        fields::pack(&mut object);
        Ok(Some(object))
    }

    /// Reads the objects of a file of a report's snapshot, except those that are left out.
    ///
    /// # Errors
    /// Fails if the reader fails.
    pub fn read_reported(
        &mut self,
        reader: &mut SnapshotReader,
        file: &str,
    ) -> serde_json::Result<Vec<Object>> {
        let outline = |object: &Object| object.to_typed::<Outline>().ok()?.object().ok();
        reader.read_taken(file, outline, |outline| self.takes(outline))
    }

    /// Returns the kinds with at least one object left out.
    pub fn kinds(&self) -> &BTreeSet<Gvk> {
        &self.kinds
    }

    /// Returns the add-ons whose objects on clusters name a configuration.
    pub(super) fn naming(&self, name: &str) -> impl Iterator<Item = &PreviewWorkload> {
        self.naming.get(name).into_iter().flatten()
    }

    /// Returns true if an object in a scope is left out.
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
