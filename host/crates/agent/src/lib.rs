//! The agent: works on one task until a run of the pipeline is green.
//!
//! It promises that a task succeeds only through a green run of exactly the tree that it leaves, that every way a task can
//! end is a [`editor::TaskResult`], and that it acts on nothing but what it was given: a model, Scouts, tools, a verifier,
//! a writer and a workplace, each behind a trait or a type of a lower crate. So its loop is tested with fakes, in milliseconds.
//!
//! - [`editor::TaskRequest::parse`] reads the text of a task.
//! - [`editor::Editor::work`] runs the task; [`editor::Tool`] is what the model can call.
//! - [`scout::Scout`] is asked by the Editor, [`scout::Grounded`] checks the reports against the repository.
//! - [`context::NotesWriter`] writes snapshots, the summary and the stuck report.
//! - [`instructions::Instructions`] reads `AGENTS.md` for the model, bounded and as data.
//! - [`gate_inputs::gate_inputs_changed`] names the changes that could make a verification easier.
//!
//! `act-task` puts the parts together; no lower crate calls this one.
//!
//! ```
//! use act_agent::editor::TaskRequest;
//!
//! let request = TaskRequest::parse("Fix the parser\n\nBoundaries:\n- src/parse/\n").unwrap();
//! let enforced = request.enforced(|_| None).unwrap();
//! assert_eq!(enforced[0].1.only, ["src/parse/"]);
//! ```

pub mod context;
pub mod editor;
pub mod gate_inputs;
pub mod instructions;
pub mod scout;
