use super::*;

const READ: &str = "agentcommand:repo/read@1.3.0";
const CHAT: &str = "agentcommand:model/chat@1.0.0";
const EDIT: &str = "agentcommand:repo/edit@1.3.0";
const PREOPENS: &str = "wasi:filesystem/preopens@0.2.6";
const TCP: &str = "wasi:sockets/tcp@0.2.6";
const HTTP: &str = "wasi:http/outgoing-handler@0.2.6";

fn imports(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

fn needs(grants: &[&str]) -> Vec<Need> {
    let need = |grant: &&str| Need {
        grant: grant.to_string(),
        why: "a test".to_owned(),
        ..Need::default()
    };
    grants.iter().map(need).collect()
}

fn judge(imports: &[String], needs: &[Need], grant: &Grant) -> Result<Grant, Mismatch> {
    judge_below(imports, needs, grant, &Grant::everything())
}

fn judge_below(
    imports: &[String],
    needs: &[Need],
    grant: &Grant,
    ceiling: &Grant,
) -> Result<Grant, Mismatch> {
    let terms = Terms::new(imports, needs, &SuggestedLimits::default(), grant, ceiling);
    effective(imports, needs, &terms)
}

// CAPABILITY-3
#[test]
fn what_is_granted_but_not_declared_stays_shut() {
    let all = imports(&[READ, CHAT]);
    let effective = judge(&all, &needs(&["llm"]), &Grant::builtin_scout()).unwrap();
    assert_eq!(effective.repo_read, None);
    assert!(effective.llm.is_some());
}

// CAPABILITY-5
#[test]
fn an_undeclared_import_of_the_base_world_is_linked_closed() {
    let base = imports(&[
        READ,
        CHAT,
        PREOPENS,
        "wasi:io/streams@0.2.6",
        "wasi:cli/environment@0.2.6",
        "wasi:clocks/wall-clock@0.2.6",
        "wasi:random/random@0.2.6",
        "agentcommand:progress/progress@1.0.0",
    ]);
    assert_eq!(judge(&base, &[], &Grant::default()).unwrap(), Grant::default());
    let all = Grant { limits: Default::default(), ..Grant::everything() };
    assert_eq!(judge(&base, &[], &all).unwrap(), Grant::default());
}

// CAPABILITY-4, security lines 27 and 49
#[test]
fn a_missing_grant_names_the_import_and_the_grant() {
    for (import, need, grant) in [
        (TCP, None, "sockets"),
        (TCP, Some("sockets"), "sockets"),
        (EDIT, None, "repo.write"),
        (EDIT, Some("repo.write"), "repo.write"),
        (HTTP, None, "http"),
        (HTTP, Some("http"), "http"),
        (CHAT, Some("llm"), "llm"),
        (PREOPENS, Some("repo.read"), "repo.read"),
    ] {
        let declared = needs(need.as_slice());
        let refused = judge(&imports(&[import]), &declared, &Grant::default()).unwrap_err();
        let shown = refused.to_string();
        assert!(shown.contains(import) && shown.contains(&format!("`{grant}`")), "{shown}");
        let missing = matches!(refused, Mismatch::Missing(_));
        assert_eq!(missing, need.is_some(), "{refused:?}");
    }
    assert!(judge(&imports(&[PREOPENS]), &needs(&["repo.read"]), &Grant::builtin_scout()).is_ok());
    // No grant opens a socket, not even all of them.
    assert!(judge(&imports(&[TCP]), &needs(&["sockets"]), &Grant::everything()).is_err());
}

#[test]
fn a_need_that_nothing_imports_is_refused() {
    let refused = judge(&[], &needs(&["llm"]), &Grant::builtin_scout());
    assert_eq!(refused, Err(Mismatch::NeedWithoutImport("llm".to_owned())));
}

// security line 49
#[test]
fn a_need_that_is_no_grant_and_an_import_that_is_no_interface_are_refused() {
    let grant = Grant::builtin_tool();
    let refused = judge(&[], &needs(&["root"]), &grant);
    assert_eq!(refused, Err(Mismatch::UnknownNeed("root".to_owned())));
    let refused = judge(&imports(&["evil:shell/run@1.0.0"]), &[], &grant);
    assert_eq!(refused, Err(Mismatch::UnknownImport("evil:shell/run@1.0.0".to_owned())));
    // No name is matched by its beginning.
    let refused = judge(&imports(&["wasi:iota/x@0.2.0"]), &[], &grant);
    assert!(matches!(refused, Err(Mismatch::UnknownImport(_))));
}

// CAPABILITY-19
#[test]
fn the_ceiling_takes_away_and_never_adds() {
    let (all, wanted) = (imports(&[READ, CHAT]), needs(&["repo.read", "llm"]));
    let low = Grant { llm: Some(Llm { calls: 2, tokens: 9_999_999 }), ..Grant::everything() };
    let granted = Grant::builtin_scout();
    let effective = judge_below(&all, &wanted, &granted, &low).unwrap();
    assert_eq!(effective.llm, Some(Llm { calls: 2, tokens: 1_000_000 }));
    assert_eq!(effective.repo_read, granted.repo_read);
    let none = Grant { llm: None, ..Grant::everything() };
    let refused = judge_below(&all, &wanted, &granted, &none).unwrap_err();
    assert_eq!(refused, Mismatch::Ceiling("llm".to_owned()));
    let without = judge_below(&all, &needs(&["repo.read"]), &granted, &Grant::everything());
    assert_eq!(without.unwrap().llm, None, "no ceiling gives what nobody asked for");
}

// CAPABILITY-20
#[test]
fn what_is_withheld_is_closed_and_no_reason_not_to_load() {
    let (all, wanted) = (imports(&[READ, EDIT]), needs(&["repo.read", "repo.write"]));
    let mut granted = Grant::builtin_tool();
    granted.withheld.insert("repo.write".to_owned());
    let effective = judge(&all, &wanted, &granted).unwrap();
    assert!(!effective.repo_write && effective.links(Capability::RepoWrite));
    assert!(effective.repo_read.is_some());
}

// CAPABILITY-18
#[test]
fn an_approval_gives_what_is_asked_for_and_no_more() {
    let wanted = [
        Need {
            grant: "http".into(),
            why: "x".into(),
            origins: vec!["https://api.example.com".parse().unwrap()],
            ..Need::default()
        },
        Need {
            grant: "env".into(),
            why: "x".into(),
            names: vec!["FOO".parse().unwrap()],
            ..Need::default()
        },
        Need { grant: "clock".into(), why: "x".into(), ..Need::default() },
    ];
    let given = usual(&wanted, Default::default());
    let http = given.http.clone().unwrap();
    assert_eq!(
        http.origins.values().map(Origin::as_str).collect::<Vec<_>>(),
        ["https://api.example.com"]
    );
    assert_eq!(http.methods.values().map(Method::as_str).collect::<Vec<_>>(), ["GET", "HEAD"]);
    assert_eq!((http.request_bytes, http.response_bytes), (1 << 20, 8 << 20));
    assert_eq!(given.clock, Clock::Coarse);
    assert_eq!((given.repo_read, given.llm, given.random), (None, None, Random::Seeded));
}
