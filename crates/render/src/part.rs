//! Directories of an overlay: each is accumulated by itself, and used again as long as the files that it
//! read are the same.

use std::sync::Arc;

use super::accumulator::ResAccumulator;
use super::build::{Build, Frame};
use super::decode::Result;
use super::document::FILE_NAMES;
use super::error::{Reason, RenderError};
use super::kustomization::{Text, at};
use super::limits::MAX_NESTING;
use super::memo::Part;

/// The list of a kustomization that names a directory.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// `resources`.
    Kustomization,
    /// `components`.
    Component,
}

impl Build<'_> {
    /// Accumulates a directory of `resources`, unless that was done before with the same files.
    ///
    /// Its objects depend on its files alone: not on the kustomizations around it, as long as none of them
    /// asks for the origins of objects or brings schemas.
    pub(super) fn part(&mut self, dir: &str, path: &Text) -> Result<ResAccumulator> {
        let accumulate =
            |build: &mut Self| build.directory(dir, path, Role::Kustomization, ResAccumulator::default());
        if self.metadata.any() || !self.schemas.are_builtin() {
            return accumulate(self);
        }
        if let Some(part) = self.known_part(dir) {
            self.source.budget.spend(part.spent)?;
            self.source.has_entered(part.directories);
            self.source.has_read(&part.closure);
            self.parts.reaches(self.stack.len() + part.height);
            self.parts.inner.extend(part.parts.iter().cloned());
            self.parts.inner.insert(dir.to_owned());
            return Ok(part.accumulated.clone());
        }
        let (left, entered) = (self.source.budget.left(), self.source.directories());
        let around = (std::mem::take(&mut self.parts.inner), std::mem::take(&mut self.parts.deepest));
        self.source.begin();
        let result = accumulate(self);
        let closure = self.source.end();
        let parts = std::mem::replace(&mut self.parts.inner, around.0);
        let deepest = std::mem::replace(&mut self.parts.deepest, around.1);
        self.parts.reaches(deepest);
        self.parts.inner.extend(parts.iter().cloned());
        let accumulated = result?;
        if self.schemas.are_builtin() {
            self.parts.inner.insert(dir.to_owned());
            let part = Part {
                accumulated: accumulated.clone(),
                closure,
                spent: left.saturating_sub(self.source.budget.left()),
                directories: self.source.directories() - entered,
                height: deepest.saturating_sub(self.stack.len()),
                parts,
            };
            self.parts.keep(dir, Arc::new(part));
        }
        Ok(accumulated)
    }

    /// Returns a part that is rendered already and fits into the limits. One that does not is rendered again,
    /// so that the error names the place.
    fn known_part(&mut self, dir: &str) -> Option<Arc<Part>> {
        let fits = |part: &Part| {
            part.spent <= self.source.budget.left()
                && self.source.may_enter(part.directories)
                && self.stack.len() + part.height <= MAX_NESTING
                && self.stack.iter().all(|frame| frame.dir != dir)
        };
        if let Some(part) = self.parts.current.get(dir) {
            return Some(part).filter(|part| fits(part)).cloned();
        }
        let part = self.parts.last.get(dir).filter(|part| fits(part) && self.source.holds(&part.closure))?;
        let part = Arc::clone(part);
        self.parts.keep_whole(dir, &part);
        Some(part)
    }

    /// Accumulates a directory that a kustomization names.
    pub(super) fn directory(
        &mut self,
        dir: &str,
        path: &Text,
        role: Role,
        into: ResAccumulator,
    ) -> Result<ResAccumulator> {
        let refuse = |reason, message: String| at(path, Box::new(RenderError::new(reason, "", message)));
        if self.stack.iter().any(|frame| frame.dir == dir) {
            let from = self.stack.iter().skip_while(|frame| frame.dir != dir).map(|frame| frame.file.clone());
            let cycle: Vec<String> = from
                .chain(self.stack.iter().find(|frame| frame.dir == dir).map(|frame| frame.file.clone()))
                .collect();
            let message = format!("the kustomization leads back to itself: {}", cycle.join(" -> "));
            return Err(refuse(Reason::Cycle, message));
        }
        let Some((file, kustomization)) = self.kustomization_of(dir)? else {
            let message = format!("the directory {:?} has no kustomization", path.text);
            let name = FILE_NAMES.first().copied().unwrap_or_default();
            let hint = format!("add a {name} there, or name its files");
            return Err(Box::new(refuse(Reason::NotFound, message).hint(hint)));
        };
        let (is, list) = match (role, kustomization.is_component) {
            (Role::Kustomization, true) => ("a component", "components"),
            (Role::Component, false) => ("a kustomization", "resources"),
            (Role::Kustomization, false) | (Role::Component, true) => {
                let origin = self.origin_of(&path.text).unwrap_or_default();
                let frame = Frame { dir: dir.into(), file, origin };
                return self.accumulate(frame, &kustomization, into).map_err(|error| at(path, error));
            }
        };
        let error = refuse(Reason::InvalidValue, format!("{:?} is {is}", path.text));
        Err(Box::new(error.hint(format!("name it in {list}"))))
    }
}
