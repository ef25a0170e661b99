//! From overlays to objects: kustomizations are rendered as `kubectl kustomize` renders them, without a
//! binary.
//!
//! [`render`] is a function of the files of one commit. It reads nothing else and starts nothing. It returns
//! the [`Closure`] of the files it read: as long as a tree holds the same closure, its rendering is the same
//! and need not be repeated. [`render_again`] repeats it only for the directories whose files have changed.
//!
//! Remote bases and charts without a copy in the tree, programs and containers are refused, because kustomize would
//! fetch or run them.

mod accumulate;
mod accumulator;
mod budget;
mod build;
mod closure;
mod config;
mod config_object;
mod configurations;
mod configured;
mod crds;
mod decode;
mod document;
mod error;
mod fieldspec;
mod generate;
#[cfg(test)]
#[path = "../../../tests/golden.rs"]
mod golden;
mod kustomization;
pub mod limits;
mod load;
mod memo;
mod part;
mod path;
mod pattern;
mod random_values;
mod remote;
mod resmap;
mod resource;
mod schemas;
mod shared;
mod source;
#[cfg(test)]
mod tests;
mod transform;

pub use closure::{Closure, PathEntry};
pub use error::{ExcerptLine, Reason, RenderError, did_you_mean};
pub use memo::RenderMemo;
pub use random_values::RandomValues;

use std::sync::Arc;

use budget::MemoryBudget;
use build::Build;
use object::RenderedObject;
use object::tree::FileTree;
use source::Source;

/// The result of rendering an overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The objects, in the order of the output.
    pub objects: Vec<Arc<RenderedObject>>,
    /// The files that the rendering depends on.
    pub closure: Closure,
}

impl Rendered {
    /// Returns the text that `kubectl kustomize` prints.
    pub fn to_yaml(&self) -> String {
        yaml::print_stream(self.objects.iter().map(|rendered| &rendered.object.0))
    }
}

/// Renders the overlay in a directory of a tree; the empty path is the tree's root.
///
/// A directory without a kustomization renders its manifests in name order. Charts that draw random values are refused.
///
/// # Errors
/// [`RenderError`] names the first mistake with its file, line and field.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
pub fn render(tree: &FileTree, root: &str) -> Result<Rendered, RenderError> {
    render_again(tree, root, &RandomValues::default(), &mut RenderMemo::default(), &|| false)
}

/// Renders the overlay in a directory of a tree, like [`render`], with the parts of an earlier rendering
/// whose files are the same, and with random values for charts. `memo` becomes that of this rendering, and stays as it is
/// after an error. The rendering stops when `is_cancelled` says so.
///
/// # Guarantees
/// The result is that of [`render`], the closure and the error included. An object that is equal to one of
/// the rendering that left the memo is the same one in memory.
///
/// # Errors
/// As [`render`], and [`Reason::Cancelled`]. [`RenderError::undrawn`] names the releases that lack random values.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
pub fn render_again(
    tree: &FileTree,
    root: &str,
    random: &RandomValues,
    memo: &mut RenderMemo,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Rendered, RenderError> {
    let root = source::join("", root).map_err(|error| RenderError { file: root.into(), ..*error })?;
    let source = Source::new(tree, MemoryBudget::new(is_cancelled));
    let mut build = Build::new(source, memo.parts(random), random.clone());
    let result = build.run(&root);
    let result = match build.undrawn.take() {
        Some(undrawn) => Err(undrawn),
        None => result.and_then(|resources| memo.next(resources, std::mem::take(&mut build.parts), random)),
    };
    match result {
        Ok((objects, next)) => {
            *memo = next;
            Ok(Rendered { objects, closure: build.source.into_closure() })
        }
        Err(mut error) => {
            if error.file.is_empty() {
                error.file = root;
            }
            let text = build.source.text_of(&error.file).unwrap_or_default();
            Err(error.with_excerpt(&text))
        }
    }
}
