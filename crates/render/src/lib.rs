//! Renders kustomizations to objects, like `kubectl kustomize` but without a binary.
//!
//! [`render`] is a function of the files of one commit. It reads nothing else and runs no program. It returns the
//! [`Closure`] of the files it read. A tree with the same closure has the same rendering. [`render_again`] repeats
//! only the directories whose files have changed.
//!
//! Remote bases without a copy in the tree, programs and containers are rejected, because kustomize would download or
//! run them. If the tree lacks a remote chart, the error names all that the rendering reads, so that the caller can
//! add their archives to the tree and render again.

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
mod decryption;
mod directories;
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
mod parameters;
mod part;
mod path;
mod pattern;
mod remote;
mod resmap;
mod resource;
mod schemas;
mod shared;
mod source;
#[cfg(test)]
mod tests;
mod transform;
mod wrapped;

pub use closure::{Closure, PathEntry};
pub use directories::{DirectoriesMemo, RenderedDirectories, matching_directories, render_directories};
pub use error::{ExcerptLine, Reason, RenderError, did_you_mean};
pub use memo::RenderMemo;
pub use parameters::{Parameters, RandomValues};

use std::sync::Arc;

use budget::MemoryBudget;
use build::Build;
use decryption::Decryption;
use limits::MAX_RENDER_BYTES;
use object::RenderedObject;
use object::tree::FileTree;
use source::Source;

/// The result of rendering an overlay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// The objects, in output order.
    pub objects: Vec<Arc<RenderedObject>>,
    /// The files on which the rendering depends.
    pub closure: Closure,
}

impl Rendered {
    /// Returns the output of `kubectl kustomize`.
    pub fn to_yaml(&self) -> String {
        yaml::print_stream(self.objects.iter().map(|rendered| &rendered.object.0))
    }
}

/// Renders the overlay in a directory of a tree. The empty path is the root of the tree.
///
/// In a directory without a kustomization, renders the manifests, sorted by file name. Rejects charts that draw
/// random values.
///
/// # Errors
/// Returns the first mistake with its file, line and field.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
pub fn render(tree: &FileTree, root: &str) -> Result<Rendered, RenderError> {
    render_again(tree, root, &Parameters::default(), &mut RenderMemo::default(), &|| false)
}

/// Renders the overlay in a directory of a tree like [`render`], but with parameters, and reuses unchanged parts of
/// the last rendering.
///
/// Replaces `memo` with the memo of this rendering, unless it fails. Stops when `is_cancelled` returns true.
///
/// # Guarantees
/// The result equals the result of [`render`], including the closure and the error. Objects that equal an object
/// in the memo share its memory.
///
/// # Errors
/// See [`render`]. Fails with [`Reason::Cancelled`] if cancelled. [`RenderError::undrawn`] lists the releases
/// without random values, and [`RenderError::charts`] the remote charts if the tree lacks one.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
pub fn render_again(
    tree: &FileTree,
    root: &str,
    parameters: &Parameters,
    memo: &mut RenderMemo,
    is_cancelled: &dyn Fn() -> bool,
) -> Result<Rendered, RenderError> {
    render_one(&Input { tree, parameters, is_cancelled }, root, memo, &mut Used::default())
}

/// The input that several directories of one rendering share.
struct Input<'a> {
    tree: &'a FileTree,
    parameters: &'a Parameters,
    is_cancelled: &'a dyn Fn() -> bool,
}

/// The parts of the limits that a rendering has used.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// The memory, in bytes.
    bytes: usize,
    /// The number of directories entered.
    entered: usize,
}

/// Renders a directory within the limits that the directories before it have left, and adds what it uses.
#[expect(
    clippy::result_large_err,
    reason = "one error a rendering, never in a hot path; callers match on its fields"
)]
fn render_one(
    input: &Input<'_>,
    root: &str,
    memo: &mut RenderMemo,
    used: &mut Used,
) -> Result<Rendered, RenderError> {
    let Input { tree, parameters, is_cancelled } = *input;
    let root = source::join("", root).map_err(|error| RenderError { file: root.into(), ..*error })?;
    let keys = Decryption::new(parameters.keys.as_ref());
    let source = Source::new(tree, keys, MemoryBudget::new(is_cancelled));
    source.has_entered(used.entered);
    source.budget.has_spent(used.bytes);
    let mut build = Build::new(source, memo.parts(parameters), parameters);
    let result = build.run(&root);
    *used = Used {
        bytes: MAX_RENDER_BYTES.saturating_sub(build.source.budget.left()),
        entered: build.source.directories(),
    };
    let result = match build.unfetched.take().or(build.undrawn.take()) {
        Some(incomplete) => Err(incomplete),
        None => {
            result.and_then(|resources| memo.next(resources, std::mem::take(&mut build.parts), parameters))
        }
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
            let is_secret = build.source.quotes_plaintext(&error);
            let text = build.source.text_of(&error.file).unwrap_or_default();
            if !error.charts.is_empty() {
                error.charts = build.source.into_closure().charts();
            }
            Err(if is_secret { decryption::without_details(*error) } else { error.with_excerpt(&text) })
        }
    }
}
