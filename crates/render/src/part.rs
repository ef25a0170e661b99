//! Directories and charts of an overlay. Each is accumulated separately, and reused until a file that it read
//! changes.

use std::sync::Arc;

use super::accumulator::ResAccumulator;
use super::build::{Build, Frame};
use super::decode::Result;
use super::document::FILE_NAMES;
use super::error::{Reason, RenderError};
use super::kustomization::{HelmChart, Text, at};
use super::limits::MAX_NESTING;
use super::memo::Part;
use super::resource::Resource;
use object::Location;

/// The list in which a kustomization refers to a directory.
#[derive(Clone, Copy)]
pub(super) enum Role {
    /// `resources`.
    Kustomization,
    /// `components`.
    Component,
}

impl Build<'_> {
    /// Accumulates a directory of `resources`, or reuses the result for the same files.
    ///
    /// Its objects depend only on its files, not on the outer kustomizations, unless one of these requests origins
    /// or adds schemas. If the directory contains charts without a namespace, its objects also depend on the
    /// inherited namespace.
    pub(super) fn part(&mut self, dir: &str, path: &Text) -> Result<ResAccumulator> {
        let accumulate =
            |build: &mut Self| build.directory(dir, path, Role::Kustomization, ResAccumulator::default());
        if self.metadata.any() || !self.schemas.are_builtin() {
            return accumulate(self);
        }
        if let Some((key, part)) = self.known_part(dir) {
            self.source.budget.spend(part.spent)?;
            self.source.has_entered(part.directories);
            self.source.has_read(&part.closure);
            self.parts.reaches(self.stack.len() + part.height);
            self.parts.inner.extend(part.parts.iter().cloned());
            self.parts.inherits |= key != dir;
            self.parts.inner.insert(key);
            return Ok(part.accumulated.clone());
        }
        let (left, entered) = (self.source.budget.left(), self.source.directories());
        let around = (std::mem::take(&mut self.parts.inner), std::mem::take(&mut self.parts.deepest));
        let inherits_around = std::mem::take(&mut self.parts.inherits);
        self.source.begin();
        let result = accumulate(self);
        let closure = self.source.end();
        let parts = std::mem::replace(&mut self.parts.inner, around.0);
        let deepest = std::mem::replace(&mut self.parts.deepest, around.1);
        let inherits = self.parts.inherits;
        self.parts.inherits |= inherits_around;
        self.parts.reaches(deepest);
        self.parts.inner.extend(parts.iter().cloned());
        let accumulated = result?;
        if self.schemas.are_builtin() {
            let key = if inherits { self.inheriting(dir) } else { dir.to_owned() };
            self.parts.inner.insert(key.clone());
            let part = Part {
                accumulated: accumulated.clone(),
                closure,
                spent: left.saturating_sub(self.source.budget.left()),
                directories: self.source.directories() - entered,
                height: deepest.saturating_sub(self.stack.len()),
                parts,
            };
            self.parts.keep(&key, Arc::new(part));
        }
        Ok(accumulated)
    }

    /// Renders a chart, or reuses the result for the same files and options.
    pub(super) fn chart_part(
        &mut self,
        dir: &str,
        chart: &HelmChart,
        chart_home: &str,
    ) -> Result<Vec<Resource>> {
        let options = HelmChart { location: Location::default(), field: String::new(), ..chart.clone() };
        let key = format!("{dir}\0{chart_home}\0{options:?}");
        self.remembered(key, |build| build.inflate(dir, chart, chart_home))
    }

    /// Makes objects, or reuses those that were made with the same key from the same files.
    pub(super) fn remembered(
        &mut self,
        key: String,
        make: impl FnOnce(&mut Self) -> Result<Vec<Resource>>,
    ) -> Result<Vec<Resource>> {
        let fits = |part: &&Arc<Part>| {
            part.spent <= self.source.budget.left() && self.source.may_enter(part.directories)
        };
        let last = || self.parts.last.get(&key).filter(|part| self.source.holds(&part.closure));
        if let Some(part) = self.parts.current.get(&key).or_else(last).filter(fits).cloned() {
            self.source.budget.spend(part.spent)?;
            self.source.has_entered(part.directories);
            self.source.has_read(&part.closure);
            self.parts.keep_whole(&key, &part);
            self.parts.inner.extend(part.parts.iter().cloned());
            self.parts.inner.insert(key);
            return Ok(part.accumulated.resmap.clone().into_vec());
        }
        let (left, entered) = (self.source.budget.left(), self.source.directories());
        let around = std::mem::take(&mut self.parts.inner);
        self.source.begin();
        let result = make(self);
        let closure = self.source.end();
        let parts = std::mem::replace(&mut self.parts.inner, around);
        self.parts.inner.extend(parts.iter().cloned());
        let mut accumulated = ResAccumulator::default();
        accumulated.resmap.append(result?)?;
        let made = accumulated.resmap.clone().into_vec();
        let spent = left.saturating_sub(self.source.budget.left());
        let directories = self.source.directories() - entered;
        self.parts.keep(&key, Arc::new(Part { accumulated, closure, spent, directories, height: 0, parts }));
        self.parts.inner.insert(key);
        Ok(made)
    }

    /// Returns a part that is already rendered and fits within the limits. A part that does not fit is rendered
    /// again, so that the error has a location.
    fn known_part(&mut self, dir: &str) -> Option<(String, Arc<Part>)> {
        let keys = [dir.to_owned(), self.inheriting(dir)];
        keys.into_iter().find_map(|key| Some((key.clone(), self.part_by_key(dir, &key)?)))
    }

    /// Returns the key of a part whose charts inherit their namespace.
    fn inheriting(&self, dir: &str) -> String {
        format!("{dir}\0{}", self.namespace())
    }

    fn part_by_key(&mut self, dir: &str, key: &str) -> Option<Arc<Part>> {
        let fits = |part: &Part| {
            part.spent <= self.source.budget.left()
                && self.source.may_enter(part.directories)
                && self.stack.len() + part.height <= MAX_NESTING
                && self.stack.iter().all(|frame| frame.dir != dir)
        };
        if let Some(part) = self.parts.current.get(key) {
            return Some(part).filter(|part| fits(part)).cloned();
        }
        let part = self.parts.last.get(key).filter(|part| fits(part) && self.source.holds(&part.closure))?;
        let part = Arc::clone(part);
        self.parts.keep_whole(key, &part);
        Some(part)
    }

    /// Accumulates a directory that a kustomization refers to.
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
            let message = format!("the kustomization includes itself: {}", cycle.join(" -> "));
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
                let frame = Frame::new(dir, file, origin);
                return self.accumulate(frame, &kustomization, into).map_err(|error| at(path, error));
            }
        };
        let error = refuse(Reason::InvalidValue, format!("{:?} is {is}", path.text));
        Err(Box::new(error.hint(format!("name it in {list}"))))
    }
}
