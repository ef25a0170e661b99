//! The parts and objects of a rendering, kept for the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::accumulator::ResAccumulator;
use super::closure::Closure;
use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::MAX_MEMO_BYTES;
use super::parameters::Parameters;
use super::resource::{ResId, Resource};
use super::shared::Shared;
use object::{Object, RenderedObject};
use yaml::{Node, Reading};

/// The parts and objects of a rendering, for [`render_again`](super::render_again).
///
/// It takes as much memory as the rendering itself, up to a limit.
#[derive(Clone, Debug, Default)]
pub struct RenderMemo {
    parts: Parts,
    /// The objects, with the nodes from which they were made.
    objects: BTreeMap<ResId, Made>,
    /// The parameters that the parts were rendered with.
    parameters: Parameters,
}

#[derive(Clone, Debug)]
struct Made {
    node: Shared<Node>,
    rendered: Arc<RenderedObject>,
}

impl RenderMemo {
    /// Returns true if the rendering had these parameters.
    pub(super) fn has(&self, parameters: &Parameters) -> bool {
        self.parameters == *parameters
    }

    /// Returns the parts to reuse.
    pub(super) fn parts(&self, parameters: &Parameters) -> Parts {
        if self.has(parameters) { self.parts.clone() } else { Parts::default() }
    }

    /// Returns the objects of a rendering and its memo. An object that equals one of the last rendering shares its
    /// memory.
    ///
    /// # Errors
    /// Fails if a value cannot be represented in JSON.
    pub(super) fn next(
        &self,
        resources: Vec<Resource>,
        parts: Parts,
        parameters: &Parameters,
    ) -> Result<(Vec<Arc<RenderedObject>>, Self)> {
        let mut objects = Vec::with_capacity(resources.len());
        let mut next =
            Self { parts: parts.for_next(), objects: BTreeMap::new(), parameters: parameters.clone() };
        let mut bytes = 0_usize;
        for resource in resources {
            let id = resource.id();
            let same = |made: &&Made| {
                let RenderedObject { origin, release_namespace, .. } = &*made.rendered;
                *origin == resource.location
                    && *release_namespace == resource.release_namespace
                    && made.node == resource.node
            };
            let rendered = match self.objects.get(&id).filter(same) {
                Some(known) => Arc::clone(&known.rendered),
                None => Arc::new(rendered(&resource)?),
            };
            objects.push(Arc::clone(&rendered));
            bytes = bytes.saturating_add(resource.node.memory());
            if bytes <= MAX_MEMO_BYTES {
                next.objects.insert(id, Made { node: resource.node, rendered });
            }
        }
        Ok((objects, next))
    }
}

fn rendered(resource: &Resource) -> Result<RenderedObject> {
    let invalid =
        |reason: String| Box::new(RenderError::at(Reason::InvalidValue, &resource.location, reason));
    let json = resource.node.to_json(Reading::Objects).map_err(|(_, reason)| invalid(reason.0))?;
    let object = Object::from_value(json).map_err(|reason| invalid(reason.to_string()))?;
    let release_namespace = resource.release_namespace.clone();
    Ok(RenderedObject { object, origin: resource.location.clone(), release_namespace })
}

/// An accumulated directory of `resources`, or a rendered chart.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) accumulated: ResAccumulator,
    /// The files on which it depends.
    pub(super) closure: Closure,
    /// The memory that it spent.
    pub(super) spent: usize,
    /// The number of directories that it entered.
    pub(super) directories: usize,
    /// The depth of nested kustomizations, including its own.
    pub(super) height: usize,
    /// The keys of nested parts.
    pub(super) parts: BTreeSet<String>,
}

/// The parts of a rendering. Directories are keyed by path and inherited namespace, charts by their options.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The parts of the last rendering. Their files may have changed.
    pub(super) last: BTreeMap<String, Arc<Part>>,
    /// The parts of this rendering.
    pub(super) current: BTreeMap<String, Arc<Part>>,
    /// Memory that the current parts spent.
    bytes: usize,
    /// The keys of parts in the directory being accumulated.
    pub(super) inner: BTreeSet<String>,
    /// The maximum nesting of kustomizations in the directory being accumulated.
    pub(super) deepest: usize,
    /// True if the directory contains a chart that inherits its namespace.
    pub(super) inherits: bool,
}

impl Parts {
    /// Returns the parts for the next rendering.
    pub(super) fn for_next(self) -> Self {
        Self { last: self.current, ..Self::default() }
    }

    /// Records that a kustomization was entered at this depth.
    pub(super) fn reaches(&mut self, depth: usize) {
        self.deepest = self.deepest.max(depth);
    }

    /// Keeps a part if the memory limit allows it.
    pub(super) fn keep(&mut self, key: &str, part: Arc<Part>) {
        if !self.current.contains_key(key) && self.bytes.saturating_add(part.spent) <= MAX_MEMO_BYTES {
            self.bytes += part.spent;
            self.current.insert(key.to_owned(), part);
        }
    }

    /// Keeps a part of the last rendering, with its nested parts.
    pub(super) fn keep_whole(&mut self, key: &str, part: &Arc<Part>) {
        for inner in &part.parts {
            let known = self.last.get(inner).filter(|_| !self.current.contains_key(inner));
            if let Some(known) = known.cloned() {
                self.keep(inner, known);
            }
        }
        self.keep(key, Arc::clone(part));
    }
}
