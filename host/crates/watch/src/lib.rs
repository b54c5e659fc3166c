//! `act watch`: every task of this user as pages in a browser and as JSON for programs, on this machine alone.
//!
//! The crate promises that it reads what tasks have written and costs them nothing, that nothing which a repository, a model, a
//! component or a step wrote is interpreted as HTML, and that only the user who started it gets an answer. The command line
//! calls it; below it is `act-task`.
//!
//! - [`Server::listen`] opens a port of the loopback interface or a Unix socket, and [`Server::serve`] answers until it is
//!   dropped.
//! - [`Server::address`] returns an address with a new token, which works once within a minute.
//!
//! To follow a request, read `server.rs`: the walls come first, then the routes. `stream.rs` has the one stream of events,
//! `journals.rs` what it reads, `cursor.rs` how a reader resumes. `pages.rs` has the pages, and `story.rs` what a journal says
//! about a task.

mod cursor;
mod journals;
mod pages;
mod patient;
mod server;
mod session;
mod story;
mod stream;

pub use journals::Gap;
pub use server::{Door, Limits, LogPiece, Server};

#[cfg(test)]
mod tests;
