//! Limits one rendering, so that no chart exhausts the machine.
//!
//! A rendering is bounded by counts instead of time, so that it fails at the same place on every machine.

use std::cell::Cell;

use crate::fault::Fault;
use crate::value::Value;

/// The work of a rendering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Evaluated nodes of templates, and what functions do beyond them.
    pub steps: u64,
    /// Bytes of the chart's files, and those that templates and functions make, all of which may be held at once.
    pub bytes: usize,
}

impl Work {
    /// The most work of one rendering. The bytes are half of the 512 MB that it may use.
    pub const MAX: Self = Self { steps: 4_000_000, bytes: 256 << 20 };

    /// Returns this less what was done.
    pub(crate) fn without(self, done: Self) -> Self {
        Self { steps: self.steps.saturating_sub(done.steps), bytes: self.bytes.saturating_sub(done.bytes) }
    }

    /// Returns the sum of both.
    pub(crate) fn and(self, more: Self) -> Self {
        Self { steps: self.steps.saturating_add(more.steps), bytes: self.bytes.saturating_add(more.bytes) }
    }
}

/// The length of one text.
pub(crate) const MAX_TEXT: usize = 32 << 20;
/// The items of one list.
pub(crate) const MAX_LIST: usize = 1_000_000;
/// The depth of templates that include each other. Helm stops at 1,000 inclusions of one template.
pub(crate) const MAX_DEPTH: usize = 1_200;
/// The stack that is left when a new piece is added, and the size of the piece.
const STACK: (usize, usize) = (128 << 10, 2 << 20);

/// The counts of one rendering.
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

    /// Returns what was done so far.
    pub(crate) fn done(&self) -> Work {
        Work { steps: self.steps.get(), bytes: self.bytes.get() }
    }

    pub(crate) fn step(&self) -> Result<(), Fault> {
        self.work(1)
    }

    /// Counts work beyond the evaluation of a node, such as the items that a function sorts.
    pub(crate) fn work(&self, steps: u64) -> Result<(), Fault> {
        self.steps.set(self.steps.get().saturating_add(steps));
        let most = self.limits.steps;
        if self.steps.get() > most {
            return Err(Fault::budget("steps", format!("the chart takes more than {most} steps to render")));
        }
        Ok(())
    }

    pub(crate) fn bytes(&self, count: usize) -> Result<(), Fault> {
        if count > MAX_TEXT {
            return Err(Fault::budget(
                "text",
                format!("a template makes a text of more than {MAX_TEXT} bytes"),
            ));
        }
        self.bytes.set(self.bytes.get().saturating_add(count));
        let most = self.limits.bytes;
        if self.bytes.get() > most {
            return Err(Fault::budget("bytes", format!("the templates make more than {most} bytes of text")));
        }
        Ok(())
    }

    /// Counts a list before it is made.
    pub(crate) fn list(&self, items: usize) -> Result<(), Fault> {
        if items > MAX_LIST {
            return Err(Fault::budget(
                "list",
                format!("a template makes a list of more than {MAX_LIST} items"),
            ));
        }
        self.work(items as u64 / 8)
    }

    /// Counts what a function returned.
    pub(crate) fn value(&self, value: &Value) -> Result<(), Fault> {
        match value {
            Value::Str(text) => self.bytes(text.len()),
            Value::List(list) => self.list(list.items.len()),
            _ => Ok(()),
        }
    }

    /// Returns whether no template runs inside another.
    pub(crate) fn is_outermost(&self) -> bool {
        self.depth.get() == 1
    }

    /// Runs a template or a schema inside another.
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
