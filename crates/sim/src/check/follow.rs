//! Follows the stores: replays their journals into the checker's own copies of the objects.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::mirror::{Mirror, Write};
use super::{Author, Checker};
use store::Store;

impl Checker {
    /// Starts following the hub or the named spoke. A spoke that joins again is a new cluster without its old
    /// objects.
    pub(crate) fn follow(&mut self, spoke: Option<&str>, store: &mut Store, now: Timestamp) {
        store.keep_journal();
        let _ = store.take_journal();
        let known = store.snapshot().collect::<Vec<_>>();
        let mirror = self.mirror_mut(spoke);
        *mirror = Mirror::default();
        for entry in known {
            let _ = mirror.take(entry, now, "");
        }
    }

    /// Follows the hub again after a restore. Objects deleted since the backup exist again.
    pub(crate) fn restored(&mut self, hub: &mut Store, now: Timestamp) {
        self.follow(None, hub, now);
        self.pruned.clear();
        self.removed.clear();
    }

    /// Reads the store's writes since the last call and checks each; `author` is `None` for writes that no
    /// controller made.
    pub(crate) fn observe(
        &mut self,
        spoke: Option<&str>,
        store: &mut Store,
        author: Option<Author<'_>>,
        now: Timestamp,
    ) {
        let mut seen = BTreeSet::new();
        for entry in store.take_journal() {
            let by = author.map_or("others", |author| author.controller);
            let Some(mut write) = self.mirror_mut(spoke).take(entry, now, by) else { continue };
            write.spoke = spoke.map(str::to_owned);
            // An action may cause several writes, such as its patch and the removal that the patch allows. Only
            // the first is the action's own write.
            let is_first = seen.insert(write.id.clone());
            if let Some(author) = author {
                let checked = match is_first {
                    true => self.preconditions(&write, &author).and_then(|()| self.fence(&write, &author)),
                    false => Ok(()),
                };
                self.note(checked.and_then(|()| self.check(&write, &author)), now);
            }
            if author.is_some() && write.before.is_none() {
                self.created.extend(write.after.iter().map(|object| object.uid().to_owned()));
            }
            if let Some(history) = &mut self.history {
                history.push(write);
            }
        }
    }

    fn mirror_mut(&mut self, spoke: Option<&str>) -> &mut Mirror {
        match spoke {
            None => &mut self.hub,
            Some(name) => self.spokes.entry(name.to_owned()).or_default(),
        }
    }

    pub(super) fn mirror(&self, write: &Write) -> &Mirror {
        write.spoke.as_ref().and_then(|name| self.spokes.get(name)).unwrap_or(&self.hub)
    }
}
