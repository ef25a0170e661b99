//! Copies each ConfigMap in the cluster's namespace on the hub to the agent's namespace on the cluster.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use addon_sdk::AddOn as _;
use api::addon::v1alpha1::ManagedClusterAddOn;
use object::{Key, Metadata as _};
use reconcile::{Action, Controller, Plan, Query, Read, Site, View, Watches};

use crate::addon::HelloWorld;

/// The label of a copy. Its value is the name of the cluster.
const COPY: &str = "helloworld.example.com/cluster";

/// The ConfigMap that every namespace has, with content specific to its cluster.
const NOT_COPIED: &str = "kube-root-ca.crt";

pub(crate) struct SyncController;

impl Controller for SyncController {
    const NAME: &'static str = "helloworld-sync";
    type Primary = ConfigMap;

    fn watches<W: Watches>(watches: &mut W) {
        // Changes to a copy are reverted.
        watches.on_site::<ConfigMap>(Site::Spoke, |change, _| {
            let original = |copy: &ConfigMap| Some(Key::namespaced(copy.label(COPY)?, copy.name()));
            change.latest().and_then(original).into_iter().collect()
        });
        watches.on::<ManagedClusterAddOn>(|_, view| view.keys::<ConfigMap>(Query::ALL));
    }

    fn plan(key: &Key, view: &impl View, _: Timestamp) -> Read<Plan> {
        let mut plan = Plan::nothing();
        let addon = view.get::<ManagedClusterAddOn>(&Key::namespaced(&key.namespace, HelloWorld::NAME))?;
        let Some(addon) = addon.filter(|_| key.name != NOT_COPIED) else { return Ok(plan) };
        let place = Key::namespaced(addon.agent_namespace(), &key.name);
        let copy = view.get_on::<ConfigMap>(Site::Spoke, &place)?;
        let action = match view.get::<ConfigMap>(key)? {
            Some(original) => Action::ensure(&copy_of(&original, &place), copy.as_deref()),
            None => copy.filter(|copy| copy.label(COPY).is_some()).map(|copy| Action::delete(&*copy)),
        };
        plan.step(action.map(|action| action.on(Site::Spoke)));
        Ok(plan)
    }
}

fn copy_of(original: &ConfigMap, place: &Key) -> ConfigMap {
    let metadata = ObjectMeta {
        namespace: Some(place.namespace.clone()),
        name: Some(place.name.clone()),
        labels: Some([(COPY.to_owned(), original.namespace().to_owned())].into()),
        ..ObjectMeta::default()
    };
    ConfigMap {
        metadata,
        data: original.data.clone(),
        binary_data: original.binary_data.clone(),
        immutable: None,
    }
}
