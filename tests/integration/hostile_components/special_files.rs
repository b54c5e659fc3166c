//! FIFOs and sockets with the names of source files.

use act_component::Grant;
use act_core::event::Events;

use super::{all_refused, read_both_ways};
use crate::hostile::{
    PLENTY, Repository, attack, attack_as_tool, editing, load, load_tool, reading,
};

/// Opening a FIFO would wait for a writer that never comes: the refusal arrives all the same, and the runtime
/// ends with no thread left waiting, so leaving the program is not delayed either.
#[test]
fn security_line_9_a_fifo_delays_neither_the_query_nor_the_exit() {
    // Compiled here, so that compiling is not what is waited for.
    drop((load(Grant::builtin_scout()), load_tool()));
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(special_files_are_refused());
        // Dropping it waits for every blocking call.
        drop(runtime);
        ended.send(()).unwrap();
    });
    end.recv_timeout(PLENTY).expect("refused, and nothing waits");
}

async fn special_files_are_refused() {
    let special = ["README.md", "socket"];
    let repository = Repository::new();
    let (hostile, tool) = (load(Grant::builtin_scout()), load_tool());
    for view in repository.views() {
        for answers in read_both_ways(&view, &special).await {
            all_refused(&answers, &special);
        }
        let shown = attack(&hostile, "list", &["."], reading(&view)).await.unwrap();
        assert!(!shown.to_string().contains("README.md"), "{shown}");
    }
    let before = repository.state();
    for writer in repository.writers() {
        let services = editing(&writer, Events::silent());
        let answers = attack_as_tool(&tool, "edit", &special, services).await;
        for path in special {
            for call in ["create", "replace", "delete", "move from", "move onto"] {
                assert!(
                    answers[path][call].as_str().unwrap().starts_with("not_a_file"),
                    "{answers}"
                );
            }
        }
    }
    assert_eq!(repository.state(), before);
}
