//! Runs controllers, without threads, clocks or connections.
//!
//! A process feeds the dispatcher with watch events, fetched repositories and the results of commands. The
//! dispatcher returns [`Command`]s: decisions to make on threads, actions to execute, kinds to watch. The operator
//! and the agent feed it from API servers and execute commands on an async runtime. The simulator feeds it from
//! stores and executes commands in an order that a seed decides.
//!
//! ```text
//! watch events ──▶ Caches ──routes──▶ WorkQueue (per controller) ──due──▶ Decision ──▶ Act… ──▶ Decision ──▶ Act ──▶ ReconcileResult
//!                    ▲                                                    plan         steps    conclude     status
//!                    └──────────────────────── results of own writes ◀─────────────────┴────────────────────┘
//! ```
//! `docs/design/dispatcher.md` explains the rules.

mod answers;
mod clock;
mod command;
mod decision;
mod feed;
mod kind_feed;
mod lookups;
mod names;
mod observed;
mod outage;
mod phases;
mod reconciliation;
mod register;
mod routes;
mod state;
mod undone;

pub use command::{Act, Acted, Command, ReconcileResult};
pub use decision::{Decided, Decision, Planning};
pub use state::{ControllerInfo, Dispatcher, DispatcherLimits};

#[cfg(test)]
mod tests;
