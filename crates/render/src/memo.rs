//! The parts and objects of a rendering, kept for the next one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decode::Result;
use super::error::{Reason, RenderError};
use super::limits::MAX_MEMO_BYTES;
use super::part::Parts;
use super::resource::{Id, Resource};
use super::shared::Shared;
use super::yaml::{Node, Reading};
use object::{Object, RenderedObject};

/// The parts and objects of a rendering, for [`render_again`](super::render_again).
///
/// It holds as much memory as the rendering itself, within a limit.
#[derive(Clone, Debug, Default)]
pub struct RenderMemo {
    parts: Parts,
    /// The objects, with the nodes that they were made from.
    objects: BTreeMap<Id, Made>,
}

#[derive(Clone, Debug)]
struct Made {
    node: Shared<Node>,
    rendered: Arc<RenderedObject>,
}

impl RenderMemo {
    /// Returns the parts to render with.
    pub(super) fn parts(&self) -> Parts {
        self.parts.clone()
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
    ) -> Result<(Vec<Arc<RenderedObject>>, Self)> {
        let mut objects = Vec::with_capacity(resources.len());
        let mut next = Self { parts: parts.for_next(), objects: BTreeMap::new() };
        let mut bytes = 0_usize;
        for resource in resources {
            let id = resource.id();
            let same = |made: &&Made| made.rendered.origin == resource.location && made.node == resource.node;
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
    Ok(RenderedObject { object, origin: resource.location.clone() })
}
