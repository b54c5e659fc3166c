use super::*;
use crate::{Llm, Random};

const READ: &str = "agentcommand:repo/read@1.5.0";
const HISTORY: &str = "agentcommand:repo/history@1.5.0";
const CHAT: &str = "agentcommand:model/chat@1.0.0";
const EDIT: &str = "agentcommand:repo/edit@1.5.0";
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

fn admit(imports: &[String], needs: &[Need], grant: &Grant) -> Result<Grant, AdmissionError> {
    judge_below(imports, needs, grant, &Grant::everything())
}

fn judge_below(
    imports: &[String],
    needs: &[Need],
    grant: &Grant,
    ceiling: &Grant,
) -> Result<Grant, AdmissionError> {
    let component = Inspection::imagined(imports, needs);
    effective(&component, &Parties::new(&component, grant, ceiling))
}

// CAPABILITY-3
#[test]
fn what_is_granted_but_not_declared_stays_shut() {
    let all = imports(&[READ, CHAT]);
    let effective = admit(&all, &needs(&["llm"]), &Grant::builtin_scout()).unwrap();
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
    assert_eq!(admit(&base, &[], &Grant::default()).unwrap(), Grant::default());
    let all = Grant { limits: Default::default(), ..Grant::everything() };
    assert_eq!(admit(&base, &[], &all).unwrap(), Grant::default());
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
        let refused = admit(&imports(&[import]), &declared, &Grant::default()).unwrap_err();
        let shown = refused.to_string();
        assert!(shown.contains(import) && shown.contains(&format!("`{grant}`")), "{shown}");
        let missing = matches!(refused, AdmissionError::Missing(_));
        assert_eq!(missing, need.is_some(), "{refused:?}");
    }
    assert!(admit(&imports(&[PREOPENS]), &needs(&["repo.read"]), &Grant::builtin_scout()).is_ok());
    // No grant opens a socket, not even all of them.
    assert!(admit(&imports(&[TCP]), &needs(&["sockets"]), &Grant::everything()).is_err());
}

#[test]
fn a_need_that_nothing_imports_is_refused() {
    let refused = admit(&[], &needs(&["llm"]), &Grant::builtin_scout());
    assert_eq!(refused, Err(AdmissionError::NeedWithoutImport("llm".to_owned())));
}

// security line 49
#[test]
fn a_need_that_is_no_grant_and_an_import_that_is_no_interface_are_refused() {
    let grant = Grant::builtin_tool();
    let refused = admit(&[], &needs(&["root"]), &grant);
    assert_eq!(refused, Err(AdmissionError::UnknownNeed("root".to_owned())));
    let refused = admit(&imports(&["evil:shell/run@1.0.0"]), &[], &grant);
    assert_eq!(refused, Err(AdmissionError::UnknownImport("evil:shell/run@1.0.0".to_owned())));
    // No name is matched by its beginning.
    let refused = admit(&imports(&["wasi:iota/x@0.2.0"]), &[], &grant);
    assert!(matches!(refused, Err(AdmissionError::UnknownImport(_))));
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
    assert_eq!(refused, AdmissionError::Ceiling("llm".to_owned()));
    let without = judge_below(&all, &needs(&["repo.read"]), &granted, &Grant::everything());
    assert_eq!(without.unwrap().llm, None, "no ceiling gives what nobody asked for");
}

// CAPABILITY-49
#[test]
fn the_history_is_given_to_a_component_that_asks_for_it_and_to_no_other() {
    let all = imports(&[READ, HISTORY]);
    let everything = Grant::everything();
    let silent = admit(&all, &needs(&["repo.read"]), &everything).unwrap();
    assert!(!silent.repo_history);
    let asks = needs(&["repo.read", "repo.history"]);
    assert!(admit(&all, &asks, &everything).unwrap().repo_history);
    assert!(admit(&all, &asks, &Grant::builtin_scout()).unwrap().repo_history);
    let refused = admit(&all, &asks, &Grant::builtin_tool()).unwrap_err().to_string();
    assert!(refused.contains(HISTORY) && refused.contains("`repo.history`"), "{refused}");
    assert!(usual(&asks, Default::default()).repo_history);
    assert!(!usual(&needs(&["repo.read"]), Default::default()).repo_history);
}

// CAPABILITY-20
#[test]
fn what_is_withheld_is_closed_and_no_reason_not_to_load() {
    let (all, wanted) = (imports(&[READ, EDIT]), needs(&["repo.read", "repo.write"]));
    let mut granted = Grant::builtin_tool();
    granted.withheld.insert("repo.write".to_owned());
    let effective = admit(&all, &wanted, &granted).unwrap();
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

fn judged(name: &str) -> &'static str {
    match check_version(name) {
        Ok(()) => "ok",
        Err(mismatch) => mismatch.code(),
    }
}

// COMPONENT-2, COMPONENT-3
#[test]
fn an_older_minor_is_taken_and_a_newer_one_or_another_major_is_not() {
    for (name, says) in [
        ("agentcommand:repo/read@1.5.0", "ok"),
        ("agentcommand:repo/read@1.4.0", "ok"),
        ("agentcommand:repo/read@1.3.0", "ok"),
        ("agentcommand:repo/read@1.2.0", "ok"),
        ("agentcommand:repo/read@1.1.7", "ok"),
        ("agentcommand:repo/read@1.0.0", "ok"),
        ("agentcommand:repo/read@1.6.0", "interface_newer"),
        ("agentcommand:repo/whatever@1.6.0", "interface_newer"),
        ("agentcommand:repo/read@2.0.0", "interface_foreign"),
        ("agentcommand:repo/read@0.1.0", "interface_foreign"),
        ("agentcommand:repo/read@1.2.0-rc.1", "interface_foreign"),
        ("agentcommand:repo/read@1.1", "interface_foreign"),
        ("agentcommand:repo/read", "interface_foreign"),
        ("agentcommand:scout/scout@1.1.0", "interface_newer"),
        ("wasi:io/streams@0.2.0", "ok"),
        ("wasi:io/streams@0.2.99", "ok"),
        ("wasi:io/streams@0.3.0", "interface_foreign"),
        ("wasi:io/streams@0.2.0-rc-2023-11-10", "interface_foreign"),
        ("wasi:logging/logging@0.1.0-draft", "ok"),
        ("wasi:logging/logging", "ok"),
        ("wasi:logging/logging@0.2.0", "interface_foreign"),
        ("wasi:config/store@0.2.0-draft", "ok"),
        ("wasi:config/store@0.3.0", "interface_foreign"),
        ("wasi:config/other@0.2.0-draft", "interface_foreign"),
        ("wasi:keyvalue/store@0.2.0-draft", "ok"),
        ("evil:shell/run@7.0.0", "ok"),
        ("agentcommand:shell/run@7.0.0", "import_unknown"),
        ("agentcommand:shell/run@1.0.0", "import_unknown"),
        ("agentcommand:shell/run", "import_unknown"),
    ] {
        assert_eq!(judged(name), says, "{name}");
    }
}

// CAPABILITY-4, CAPABILITY-55
#[test]
fn drafts_that_are_linked_need_no_grant_to_load_and_other_packages_are_refused_as_unknown() {
    let linked = imports(&["wasi:logging/logging", "wasi:config/store@0.2.0-draft"]);
    let bare = admit(&linked, &[], &Grant::everything()).unwrap();
    assert!(bare.env.is_empty(), "no key is granted without a need");
    let key = Need {
        grant: "env".into(),
        why: "x".into(),
        names: vec!["SOME_KEY".parse().unwrap()],
        ..Need::default()
    };
    let granted = admit(&linked, &[key], &Grant::everything()).unwrap();
    assert!(granted.env.contains(&"SOME_KEY".parse().unwrap()));
    let other = check_version("wasi:logging/logging@0.2.0").unwrap_err().to_string();
    assert!(other.contains("wasi:logging/logging@0.1.0-draft"), "{other}");
    let refused = admit(&imports(&["wasi:keyvalue/store@0.2.0-draft"]), &[], &Grant::everything());
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), "import_unknown");
    assert!(refused.to_string().contains("no grant opens"), "{refused}");
}

// COMPONENT-3
#[test]
fn a_refusal_names_both_versions() {
    for name in ["agentcommand:repo/read@1.9.0", "agentcommand:repo/read@3.0.0"] {
        let told = check_version(name).unwrap_err().to_string();
        assert!(told.contains(name) && told.contains("1.5"), "{told}");
    }
}

// COMPONENT-1
#[test]
fn the_versions_are_those_of_the_files() {
    let deps = act_core::testing::checkout().join("wit/deps");
    let mut packages = vec![];
    for entry in std::fs::read_dir(deps).unwrap() {
        let dir = entry.unwrap().path();
        let file = dir.join(dir.file_name().unwrap()).with_extension("wit");
        let text = std::fs::read_to_string(file).unwrap();
        let line = text.lines().next().unwrap();
        let name = line.strip_prefix("package ").unwrap().trim_end_matches(';');
        let (package, version) = name.split_once('@').unwrap();
        packages.push((package.to_owned(), Version::parse(version).unwrap()));
    }
    packages.sort();
    let ours: Vec<_> = OURS.into_iter().filter(|(name, _)| *name != "wasi").collect();
    let ours: Vec<_> = ours.into_iter().map(|(name, version)| (name.to_owned(), version)).collect();
    assert_eq!(packages, ours);
}

fn no(parties: &Parties, object: &str) -> Vec<Party> {
    let access = Access::parse(object).unwrap();
    let says = parties.why(&access).into_iter();
    says.filter(|says| !says.allows).map(|says| says.party).collect()
}

// CAPABILITY-31
#[test]
fn every_party_that_says_no_is_named() {
    let need = |grant: &str| Need { grant: grant.into(), why: "x".into(), ..Need::default() };
    let needs = [need("repo.read"), need("llm")];
    let imports: Vec<String> =
        ["agentcommand:repo/read@1.5.0", "agentcommand:model/chat@1.0.0", "wasi:http/types@0.2.6"]
            .map(str::to_owned)
            .into();
    let mut granted = Grant::builtin_scout();
    granted.repo_read.as_mut().unwrap().paths =
        [RepoPart::try_from("src".to_owned()).unwrap()].into_iter().collect();
    let ceiling = Grant { llm: None, ..Grant::everything() };
    let component = Inspection::imagined(&imports, &needs);
    let parties = Parties::new(&component, &granted, &ceiling);
    assert_eq!(no(&parties, "src/lib.rs"), []);
    assert_eq!(no(&parties, "docs/a.md"), [Party::Grants]);
    assert_eq!(no(&parties, "llm"), [Party::Ceiling]);
    assert_eq!(no(&parties, "repo.history"), [Party::Imports, Party::Needs]);
    assert_eq!(no(&parties, "https://api.example.com/v1"), [Party::Needs, Party::Grants]);
    assert_eq!(no(&parties, "write:src/lib.rs"), [Party::Imports, Party::Needs, Party::Grants]);
    assert_eq!(no(&parties, "env:FOO"), [Party::Imports, Party::Needs, Party::Grants]);
}

#[test]
fn an_object_that_is_none_is_refused() {
    for bad in
        ["", "../x", "https://API.example.com", "https://user@h", "BREW https://h", "env:AGENT_X"]
    {
        assert!(Access::parse(bad).is_err(), "{bad}");
    }
}
