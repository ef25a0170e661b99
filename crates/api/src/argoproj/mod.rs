//! `argoproj.io`: the kinds of Argo CD that controllers read. Argo CD installs their definitions.

pub mod v1alpha1;
