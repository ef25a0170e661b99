//! The objects a command looks at: of a hub as it is now, or of a file.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;

use super::CommandError;
use super::commands::block_on;
use super::connect::HubArgs;
use crate::shell;
use object::{Gvk, Key, Kind, Object};
use reconcile::{Caches, Change, Controller, Index, Observes, Site, Wakes, Watches};

/// Largest file that is read: 64 MiB hold some 20,000 clusters.
const MAX_FILE: u64 = 64 << 20;
/// Objects per page of a list, as kubectl asks for them.
const PAGE: u32 = 500;

/// Where a command reads what it explains.
#[derive(Debug, clap::Args)]
pub(super) struct Origin {
    /// Read the objects from this file (YAML documents or a List, as kubectl prints it) instead of from a
    /// hub.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    snapshot: Option<PathBuf>,
    #[command(flatten)]
    hub: HubArgs,
}

impl Origin {
    #[cfg(test)]
    pub(super) fn of_file(file: PathBuf) -> Self {
        Self { snapshot: Some(file), hub: HubArgs::default() }
    }

    /// Connects to the hub, for a command that follows it.
    pub(super) async fn connect(&self) -> Result<Client, CommandError> {
        self.hub.connect().await
    }

    /// Reads all objects of some kinds into caches.
    ///
    /// # Errors
    /// Where the file cannot be read, the hub does not answer or serve a kind, or an object does not fit its
    /// type.
    pub(super) fn read(&self, wanted: &[Wanted]) -> Result<Caches, CommandError> {
        let snapshot = match &self.snapshot {
            Some(file) => Snapshot::of_file(file)?,
            None => block_on(async {
                let hub = self.hub.connect().await?;
                let mut snapshot = Snapshot { objects: Vec::new() };
                for kind in wanted {
                    snapshot.fetch(&hub, kind).await?;
                }
                Ok(snapshot)
            })?,
        };
        let mut caches = Caches::default();
        for kind in wanted {
            (kind.load)(&snapshot, &mut caches)?;
        }
        Ok(caches)
    }
}

/// A kind a command reads, and the way its objects take into the caches.
pub(super) struct Wanted {
    gvk: Gvk,
    plural: String,
    load: fn(&Snapshot, &mut Caches) -> Result<(), CommandError>,
}

impl Wanted {
    /// A kind that is read as its type.
    pub(super) fn typed<K: Kind>() -> Self {
        Self { gvk: Gvk::of::<K>(), plural: K::plural(&()).into(), load: Snapshot::load::<K> }
    }

    /// A kind whose content alone matters.
    pub(super) fn observed<K: Kind>() -> Self {
        Self { gvk: Gvk::of::<K>(), plural: K::plural(&()).into(), load: Snapshot::load_observed::<K> }
    }
}

/// The kinds of the hub that a controller registers, so that an explanation reads what the controller reads.
pub(super) fn read_by<C: Controller>() -> Vec<Wanted> {
    let mut kinds = Kinds(vec![Wanted::typed::<C::Primary>()]);
    C::watches(&mut kinds);
    kinds.0
}

struct Kinds(Vec<Wanted>);

impl Kinds {
    fn add<K: Kind>(&mut self, site: Site) {
        let gvk = Gvk::of::<K>();
        if site == Site::Hub && !self.0.iter().any(|kind| kind.gvk == gvk) {
            self.0.push(Wanted::typed::<K>());
        }
    }
}

impl Watches for Kinds {
    type View = Caches;

    fn on_site<K: Kind>(&mut self, site: Site, _: Wakes<K, Caches>) {
        self.add::<K>(site);
    }

    fn on_observed(&mut self, _: Wakes<Object, Caches>) {}

    fn on_source(&mut self, _: fn(&Key) -> Vec<Key>) {}

    fn keep<I: Index>(&mut self) {
        I::observes(self);
    }
}

impl<I: Index> Observes<I> for Kinds {
    fn on<K: Kind>(&mut self, _: fn(&mut I, &Change<K>) -> Vec<Key>) {
        self.add::<K>(Site::Hub);
    }
}

/// Objects of any kind.
struct Snapshot {
    objects: Vec<Object>,
}

impl Snapshot {
    /// Reads YAML documents or JSON; a List stands for its items.
    ///
    /// # Errors
    /// Where the file cannot be read, or holds something that is no object.
    fn of_file(file: &Path) -> Result<Self, CommandError> {
        let name = file.display();
        let size = std::fs::metadata(file).with_context(|| format!("cannot read {name}"))?.len();
        if size > MAX_FILE {
            return Err(anyhow!("{name} has {size} bytes, at most {MAX_FILE} are read").into());
        }
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        Self::of_text(&text).with_context(|| format!("cannot read {name}")).map_err(CommandError::from)
    }

    fn of_text(text: &str) -> anyhow::Result<Self> {
        let documents: Vec<Value> = if text.trim_start().starts_with('{') {
            serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>()?
        } else {
            // The limits of the size above: nodes and events of a file that is all clusters, and no depth an
            // object would have.
            let options = serde_saphyr::options! {
                strict_booleans: false,
                budget: serde_saphyr::budget! {
                    max_documents: 50_000, max_nodes: 10_000_000, max_events: 40_000_000
                },
            };
            serde_saphyr::from_multiple_with_options(text, options)?
        };
        let mut objects = Vec::new();
        for (i, document) in documents.into_iter().enumerate() {
            let object = Object::from_value(document).with_context(|| format!("document {}", i + 1))?;
            match object.0.get("items") {
                Some(Value::Array(items)) if object.kind().ends_with("List") => {
                    let items = items.iter().cloned().map(Object::from_value);
                    objects.extend(
                        items
                            .collect::<Result<Vec<_>, _>>()
                            .with_context(|| format!("items of document {}", i + 1))?,
                    );
                }
                _ => objects.push(object),
            }
        }
        Ok(Self { objects })
    }

    /// Adds every object of a kind on a hub.
    ///
    /// # Errors
    /// Where the hub does not answer, or does not serve the kind.
    async fn fetch(
        &mut self,
        hub: &Client,
        Wanted { gvk, plural, load: _ }: &Wanted,
    ) -> Result<(), CommandError> {
        let names = GroupVersionKind::gvk(&gvk.group, &gvk.version, &gvk.kind);
        let api: Api<DynamicObject> =
            Api::all_with(hub.clone(), &ApiResource::from_gvk_with_plural(&names, plural));
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = api
                .list(&params)
                .await
                .map_err(|error| anyhow!("cannot list {gvk}: {}", shell::said(&error)))?;
            for object in page.items {
                let mut object = Object::from_value(serde_json::to_value(object)?)?;
                object.0.insert("apiVersion".into(), gvk.api_version().into());
                object.0.insert("kind".into(), gvk.kind.as_str().into());
                self.objects.push(object);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(()),
            }
        }
    }

    /// Puts the objects of a kind into caches, complete.
    ///
    /// # Errors
    /// The first object that does not fit its type.
    fn load<K: Kind>(&self, caches: &mut Caches) -> Result<(), CommandError> {
        let gvk = Gvk::of::<K>();
        let typed = self.objects.iter().filter(|object| object.gvk() == gvk).map(Object::to_typed::<K>);
        caches.replace(Site::Hub, typed.collect::<Result<Vec<_>, _>>()?, "0");
        Ok(())
    }

    fn load_observed<K: Kind>(&self, caches: &mut Caches) -> Result<(), CommandError> {
        let gvk = Gvk::of::<K>();
        let objects = self.objects.iter().filter(|object| object.gvk() == gvk).cloned();
        caches.replace_observed(&gvk, objects.collect(), "0");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explanation_reads_the_kinds_of_its_controller() {
        let kinds = |kinds: Vec<Wanted>| kinds.into_iter().map(|kind| kind.gvk.kind).collect::<Vec<_>>();
        let placement = kinds(read_by::<controllers::hub::placement::PlacementController>());
        assert!(placement.contains(&"AddOnPlacementScore".to_owned()), "of its index: {placement:?}");
        let rollout = kinds(read_by::<controllers::hub::addon_config::AddonConfigController>());
        assert!(rollout.contains(&"RolloutPolicy".to_owned()), "{rollout:?}");
        assert_eq!(rollout.iter().filter(|kind| *kind == "PlacementDecision").count(), 1, "{rollout:?}");
    }

    #[test]
    fn lists_and_documents_are_read_alike() {
        let list = r#"{"apiVersion": "v1", "kind": "List", "items": [{"kind": "A"}, {"kind": "B"}]}"#;
        let documents = "kind: A\n---\nkind: B\n";
        for text in [list, documents] {
            let kinds: Vec<_> = Snapshot::of_text(text)
                .unwrap()
                .objects
                .iter()
                .map(|object| object.kind().to_owned())
                .collect();
            assert_eq!(kinds, ["A", "B"]);
        }
    }
}
