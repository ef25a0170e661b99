//! Limits the resources of one rendering, so that no chart can exhaust the machine.
//!
//! The limits are counts instead of times, so that a rendering fails at the same point on every machine.

use std::cell::Cell;

use crate::fault::Fault;
use crate::value::Value;

/// The work of a rendering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Evaluated template nodes, plus further work in functions.
    pub steps: u64,
    /// Bytes of the chart's files and of everything that templates and functions produce. All of it may be in
    /// memory at once.
    pub bytes: usize,
}

impl Work {
    /// The maximum work of one rendering. The bytes are half of the 512 MB that it may use.
    pub const MAX: Self = Self { steps: 4_000_000, bytes: 256 << 20 };

    /// Returns the remaining work after `done`.
    pub(crate) fn without(self, done: Self) -> Self {
        Self { steps: self.steps.saturating_sub(done.steps), bytes: self.bytes.saturating_sub(done.bytes) }
    }

    pub(crate) fn and(self, more: Self) -> Self {
        Self { steps: self.steps.saturating_add(more.steps), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

/// Maximum length of a text.
pub(crate) const MAX_TEXT: usize = 32 << 20;
/// Maximum number of items in a list.
pub(crate) const MAX_LIST: usize = 1_000_000;
/// Maximum depth of nested templates. Helm stops at 1,000 inclusions of one template.
pub(crate) const MAX_DEPTH: usize = 1_200;
/// The remaining stack at which to grow it, and the size of each extension.
const STACK: (usize, usize) = (128 << 10, 2 << 20);

/// The resources that one rendering has used.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Work,
    steps: Cell<u64>,
    bytes: Cell<usize>,
    depth: Cell<usize>,
}

impl Budget {
    pub(crate) fn new(limits: Work) -> Self {
        Self { limits, steps: Cell::default(), bytes: Cell::default(), depth: Cell::default() }
    }

    /// Returns the work so far.
    pub(crate) fn done(&self) -> Work {
        Work { steps: self.steps.get(), bytes: self.bytes.get() }
    }

    pub(crate) fn step(&self) -> Result<(), Fault> {
        self.work(1)
    }

    /// Counts work beyond evaluating a node, such as sorting items in a function.
    pub(crate) fn work(&self, steps: u64) -> Result<(), Fault> {
        self.steps.set(self.steps.get().saturating_add(steps));
        let most = self.limits.steps;
        if self.steps.get() > most {
            return Err(Fault::budget(
                "steps",
                format!("rendering the chart exceeds the limit of {most} steps"),
            ));
        }
        Ok(())
    }

    pub(crate) fn bytes(&self, count: usize) -> Result<(), Fault> {
        if count > MAX_TEXT {
            return Err(Fault::budget(
                "text",
                format!("a template produces a string of more than {MAX_TEXT} bytes"),
            ));
        }
        self.bytes.set(self.bytes.get().saturating_add(count));
        let most = self.limits.bytes;
        if self.bytes.get() > most {
            return Err(Fault::budget("bytes", format!("the templates' output exceeds {most} bytes")));
        }
        Ok(())
    }

    /// Counts a list before it is created.
    pub(crate) fn list(&self, items: usize) -> Result<(), Fault> {
        if items > MAX_LIST {
            return Err(Fault::budget(
                "list",
                format!("a template produces a list of more than {MAX_LIST} items"),
            ));
        }
        self.work(items as u64 / 8)
    }

    /// Counts the result of a function.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Str(text) => self.bytes(text.len()),
            Value::List(list) => self.list(list.items.len()),
            _ => Ok(()),
        }
    }

    /// Returns true if no template runs inside another.
    pub(crate) fn is_outermost(&self) -> bool {
        self.depth.get() == 1
    }

    /// Runs a nested template or schema.
    pub(crate) fn deeper<T>(&self, body: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth.get() >= MAX_DEPTH {
            let text = format!(
                "templates include each other, or schemas refer to each other, more than {MAX_DEPTH} levels deep"
            );
            return Err(Fault::budget("depth", text));
        }
        self.depth.set(self.depth.get() + 1);
        let result = stacker::maybe_grow(STACK.0, STACK.1, body);
        self.depth.set(self.depth.get() - 1);
        result
    }
}
