//! Encrypts the values of Secrets in works, so that only the agent of a cluster can read them.
//!
//! The hub encrypts each value with its own key, which it derives from the value and its place: the set or the
//! template that contains the Secret, the Secret and the name of the value. The ciphertext is part of the template and
//! is the same for all clusters. A work contains the keys of its values in an annotation, encrypted for its cluster.
//! Another recipient therefore changes only the annotation, and nothing is rolled out.
//!
//! Everything is derived, so equal input gives equal ciphertext. A reader of the hub sees if a value at one place
//! has changed, and its length. This crate draws no random values and stores nothing.

mod cipher;
mod hub;
mod identity;
mod keys;
mod owner;
mod secret;
#[cfg(test)]
mod tests;

pub use hub::HubKey;
pub use identity::{Identity, Recipient};
pub use keys::{is_for, open};
pub use owner::Owner;
pub use secret::{MAX_VALUES, has_plaintext, has_sealed, is_plain, is_sealed, is_secret, keep_live};
