//! The core group.

mod config_map;
mod endpoints;
mod event;
mod limit_range;
mod namespace;
mod node;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod pod_template;
mod replication_controller;
mod resource_quota;
mod secret;
mod service;
mod service_account;

use super::BuiltinKind;

pub(super) use event::COLUMNS as EVENT_COLUMNS;

pub(super) static KINDS: &[&BuiltinKind] = &[
    &config_map::KIND,
    &endpoints::KIND,
    &event::KIND,
    &limit_range::KIND,
    &namespace::KIND,
    &node::KIND,
    &persistent_volume::KIND,
    &persistent_volume_claim::KIND,
    &pod::KIND,
    &pod_template::KIND,
    &replication_controller::KIND,
    &resource_quota::KIND,
    &secret::KIND,
    &service::KIND,
    &service_account::KIND,
];
