//! Generators of ConfigMaps, Secrets and ServiceAccounts.

mod chart;
mod iam_policy;
mod object;
mod pairs;
mod run;

pub(super) use run::{kinds, run};
