//! Applications of Argo CD.

mod application;

pub use application::Application;
