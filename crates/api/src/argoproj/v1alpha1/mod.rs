//! What Argo CD deploys.

mod application;

pub use application::Application;
