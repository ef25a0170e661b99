//! The named templates of a rendering. `tpl` temporarily adds a layer.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::parse::{ParseError, Tree, parse};

/// Parsed trees by source text.
type Parsed = BTreeMap<Rc<str>, Vec<Rc<Tree>>>;

/// Named templates, layered over an outer set.
#[derive(Debug, Default)]
pub(crate) struct Set {
    outer: Option<Rc<Set>>,
    trees: BTreeMap<Rc<str>, Rc<Tree>>,
    /// Cache of the texts that `tpl` has parsed.
    parsed: Rc<RefCell<Parsed>>,
}

impl Set {
    pub(crate) fn get(&self, name: &str) -> Option<&Rc<Tree>> {
        self.trees.get(name).or_else(|| self.outer.as_ref()?.get(name))
    }

    /// Adds a file and its definitions. A later definition replaces an earlier one unless it is empty.
    pub(crate) fn add(&mut self, file: &Rc<str>, text: &str) -> Result<(), ParseError> {
        for tree in parse(file, text, &crate::funcs::is_function)? {
            self.insert(Rc::new(tree));
        }
        Ok(())
    }

    fn insert(&mut self, tree: Rc<Tree>) {
        if self.get(&tree.name).is_none() || !tree.is_empty() {
            self.trees.insert(tree.name.clone(), tree);
        }
    }

    /// Returns a layer with a text for `tpl`, under the given name.
    pub(crate) fn layer(self: &Rc<Self>, name: &Rc<str>, text: &Rc<str>) -> Result<Rc<Self>, ParseError> {
        let known = self.parsed.borrow().get(text).cloned();
        let trees = match known {
            Some(trees) => trees,
            None => {
                let trees: Vec<_> =
                    parse(name, text, &crate::funcs::is_function)?.into_iter().map(Rc::new).collect();
                self.parsed.borrow_mut().insert(text.clone(), trees.clone());
                trees
            }
        };
        let mut layer =
            Self { outer: Some(self.clone()), trees: BTreeMap::new(), parsed: self.parsed.clone() };
        // The text itself replaces an outer `tpl` text, even if it is empty.
        for tree in trees {
            if tree.name == *name {
                layer.trees.insert(name.clone(), tree);
            } else {
                layer.insert(tree);
            }
        }
        Ok(Rc::new(layer))
    }
}
