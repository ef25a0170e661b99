//! The parts and objects of a rendering, kept for the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::accumulator::ResAccumulator;
use super::closure::Closure;
use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::MAX_MEMO_BYTES;
use super::random_values::RandomValues;
use super::resource::{ResId, Resource};
use super::shared::Shared;
use object::{Object, RenderedObject};
use yaml::{Node, Reading};

/// The parts and objects of a rendering, for [`render_again`](super::render_again).
///
/// It holds as much memory as the rendering itself, within a limit.
#[derive(Clone, Debug, Default)]
pub struct RenderMemo {
    parts: Parts,
    /// The objects, with the nodes that they were made from.
    objects: BTreeMap<ResId, Made>,
    /// The random values that the parts were rendered with.
    random: RandomValues,
}

#[derive(Clone, Debug)]
struct Made {
    node: Shared<Node>,
    rendered: Arc<RenderedObject>,
}

impl RenderMemo {
    /// Returns the parts to render with.
    pub(super) fn parts(&self, random: &RandomValues) -> Parts {
        if self.random == *random { self.parts.clone() } else { Parts::default() }
    }

    /// Makes the objects of a rendering, and its memo. An object that is equal to one of the last rendering
    /// is shared with it.
    ///
    /// # Errors
    /// A value has no JSON.
    pub(super) fn next(
        &self,
        resources: Vec<Resource>,
        parts: Parts,
        random: &RandomValues,
    ) -> Result<(Vec<Arc<RenderedObject>>, Self)> {
        let mut objects = Vec::with_capacity(resources.len());
        let mut next = Self { parts: parts.for_next(), objects: BTreeMap::new(), random: random.clone() };
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
    let invalid = |why: String| Box::new(RenderError::at(Reason::InvalidValue, &resource.location, why));
    let json = resource.node.to_json(Reading::Objects).map_err(|(_, why)| invalid(why.0))?;
    let object = Object::from_value(json).map_err(|why| invalid(why.to_string()))?;
    let release_namespace = resource.release_namespace.clone();
    Ok(RenderedObject { object, origin: resource.location.clone(), release_namespace })
}

/// A directory of `resources` or an inflated chart, accumulated.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) accumulated: ResAccumulator,
    /// The files that it depends on.
    pub(super) closure: Closure,
    /// Memory that it spent.
    pub(super) spent: usize,
    /// Directories that it entered.
    pub(super) directories: usize,
    /// Kustomizations within each other, its own included.
    pub(super) height: usize,
    /// The parts that it consists of.
    pub(super) parts: BTreeSet<String>,
}

/// The parts of a rendering: directories by their path, and by a namespace that they inherit; charts by their options.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Those of the last rendering. Their files may have changed.
    pub(super) last: BTreeMap<String, Arc<Part>>,
    /// Those of this one.
    pub(super) current: BTreeMap<String, Arc<Part>>,
    /// Memory that the present ones spent.
    bytes: usize,
    /// The parts of the directory that is being accumulated.
    pub(super) inner: BTreeSet<String>,
    /// Kustomizations within each other, at most, in the directory that is being accumulated.
    pub(super) deepest: usize,
    /// True if a chart in it takes the namespace of the kustomizations around it.
    pub(super) inherits: bool,
}

impl Parts {
    /// Returns the parts for the next rendering.
    pub(super) fn for_next(self) -> Self {
        Self { last: self.current, ..Self::default() }
    }

    /// Notes that a kustomization was entered as the `depth`-th within others.
    pub(super) fn reaches(&mut self, depth: usize) {
        self.deepest = self.deepest.max(depth);
    }

    /// Keeps a part, if there is memory for it.
    pub(super) fn keep(&mut self, key: &str, part: Arc<Part>) {
        if !self.current.contains_key(key) && self.bytes.saturating_add(part.spent) <= MAX_MEMO_BYTES {
            self.bytes += part.spent;
            self.current.insert(key.to_owned(), part);
        }
    }

    /// Keeps a part of the last rendering, and those that it consists of.
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
