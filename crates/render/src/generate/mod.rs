//! Generators of ConfigMaps, Secrets and ServiceAccounts, and the hash that ends the names of generated
//! objects.

mod hash;
mod iam_policy;
mod object;
mod pairs;
mod run;

pub(super) use hash::{name_hash, write_json};
pub(super) use object::merge_data;
pub(super) use pairs::at;
pub(super) use run::{kinds, run};
