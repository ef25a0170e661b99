//! Reads `configurations`, `crds` and `openapi`, which extend the fields that transformers know.

use std::sync::Arc;

use serde_json::Value as Json;

use super::build::Build;
use super::config::{Config, DEFAULT};
use super::crds;
use super::decode::{Located, Result};
use super::document::Kustomization;
use super::error::{Reason, RenderError};
use super::kustomization::at;
use yaml::{Node, Reading};

impl Build<'_> {
    pub(super) fn read_openapi(&mut self, dir: &str, kustomization: &Kustomization) -> Result<()> {
        let Some(path) = &kustomization.openapi_path else { return Ok(()) };
        let (file, nodes) = self.documents(dir, path)?;
        for node in nodes {
            let json = json_of(&file, &node)?;
            if node.get("kind").is_some_and(|kind| kind.text() == "CustomResourceDefinition") {
                self.schemas.add_crd(&json);
            } else {
                self.schemas.set_document(json);
            }
        }
        Ok(())
    }

    /// Returns the fields that the transformers of this kustomization change.
    pub(super) fn config_of(&mut self, dir: &str, kustomization: &Kustomization) -> Result<Arc<Config>> {
        let mut config = DEFAULT.clone();
        for path in &kustomization.configurations {
            let (file, nodes) = self.documents(dir, path)?;
            for node in &nodes {
                let more = Arc::new(Config::read(&Located::root(&file, node))?);
                config = config.merge(&more).map_err(|error| at(path, error))?;
            }
        }
        for path in &kustomization.crds {
            let (file, nodes) = self.documents(dir, path)?;
            for node in &nodes {
                let json = json_of(&file, node)?;
                if node.get("kind").is_some_and(|kind| kind.text() == "CustomResourceDefinition") {
                    self.schemas.add_crd(&json);
                } else {
                    let more = Arc::new(crds::config_of(&json)?);
                    config = config.merge(&more).map_err(|error| at(path, error))?;
                }
            }
        }
        Ok(config)
    }
}

fn json_of(file: &str, node: &Node) -> Result<Json> {
    node.to_json(Reading::Yaml11)
        .map_err(|(line, reason)| Box::new(RenderError::new(Reason::InvalidValue, file, reason.0).line(line)))
}
