use super::*;
use crate::usual;

// CAPABILITY-1
#[test]
fn the_default_grant_is_nothing() {
    let Grant { repo_read, repo_write, llm, http, env, clock, random, .. } = Grant::default();
    assert_eq!((repo_read, repo_write, llm, http), (None, false, None, None));
    assert!(env.is_empty());
    assert_eq!((clock, random), (Clock::Constant, Random::Seeded));
}

#[test]
fn a_grant_prints_its_limits_in_units_that_people_read() {
    let shown = serde_json::to_value(Grant::builtin_tool()).unwrap();
    assert_eq!(shown["limits"]["wall_ms"], 30_000);
    assert_eq!(shown["repo.write"], true);
    assert_eq!(shown.get("llm"), None);
}

#[test]
fn a_person_reads_the_bounds_of_a_grant_after_its_name() {
    let grant = Grant {
        repo_read: Some(RepoRead { paths: parts(&["docs", "src"]), ..RepoRead::default() }),
        repo_write: true,
        llm: Some(Llm { calls: 3, tokens: 900 }),
        env: ["A", "B"].map(|name| name.parse().unwrap()).into_iter().collect(),
        clock: Clock::Precise,
        ..Grant::default()
    };
    for (capability, expected) in [
        (Capability::RepoRead, "repo.read of docs src"),
        (Capability::RepoWrite, "repo.write"),
        (Capability::Llm, "llm (3 calls, 900 tokens)"),
        (Capability::Env, "env A B"),
        (Capability::Clock, "clock (precise)"),
        (Capability::Http, "http"),
    ] {
        assert_eq!(capability.in_words(&grant), expected);
    }
    let all = Grant { repo_read: Some(RepoRead::default()), ..Grant::default() };
    assert_eq!(Capability::RepoRead.in_words(&all), "repo.read");
    for capability in Capability::ALL {
        assert!(!capability.meaning().is_empty(), "{}", capability.name());
    }
}

fn parts(paths: &[&str]) -> Set<RepoPart> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

// CAPABILITY-18
#[test]
fn meeting_takes_the_smaller_of_everything() {
    let a = Grant {
        repo_read: Some(RepoRead { paths: parts(&["src", "docs/a"]), ..RepoRead::default() }),
        llm: Some(Llm { calls: 3, tokens: 900 }),
        env: ["A", "B"].map(|name| name.parse().unwrap()).into_iter().collect(),
        clock: Clock::Precise,
        ..Grant::everything()
    };
    let b = Grant {
        repo_read: Some(RepoRead { paths: parts(&["docs", "src/lib"]), ..RepoRead::default() }),
        llm: Some(Llm { calls: 9, tokens: 100 }),
        env: ["B", "C"].map(|name| name.parse().unwrap()).into_iter().collect(),
        clock: Clock::Coarse,
        http: None,
        ..Grant::everything()
    };
    let both = a.meet(&b);
    assert_eq!(both.repo_read.as_ref().unwrap().paths, parts(&["docs/a", "src/lib"]));
    assert_eq!(both.llm, Some(Llm { calls: 3, tokens: 100 }));
    assert_eq!(both.env, ["B"].map(|name| name.parse().unwrap()).into_iter().collect());
    assert_eq!((both.clock, both.http.clone()), (Clock::Coarse, None));
    assert_eq!(both, b.meet(&a));
    assert_eq!(both.meet(&Grant::everything()), both);
    assert_eq!(both.meet(&Grant::default()).repo_read, None);
    let apart = RepoRead { paths: parts(&["a"]), ..RepoRead::default() };
    let none = apart.meet(&RepoRead { paths: parts(&["ab"]), ..RepoRead::default() });
    assert!(none.paths.is_empty() && !none.covers("a") && !none.covers("ab/x"));
}

#[test]
fn a_grant_is_read_as_it_was_written_and_never_with_a_word_too_many() {
    let grant = Grant { clock: Clock::Coarse, ..Grant::builtin_scout() };
    let text = serde_json::to_string(&grant).unwrap();
    assert_eq!(serde_json::from_str::<Grant>(&text).unwrap(), grant);
    for bad in [r#"{"root":true}"#, r#"{"limits":{"cpu":1}}"#, r#"{"env":"any"}"#] {
        assert!(serde_json::from_str::<Grant>(bad).is_err(), "{bad}");
    }
}

fn need(grant: &str, paths: &[&str]) -> Need {
    serde_json::from_value(serde_json::json!({"grant": grant, "why": "x", "paths": paths})).unwrap()
}

/// One approval after another, each with what the one before leaves.
fn next(narrowed: &Ceiling, needs: &[Need]) -> Grant {
    narrowed.limit_usual(usual(needs, Limits::default()), needs)
}

// CAPABILITY-44
#[test]
fn what_was_taken_away_stays_away_and_what_is_new_is_given() {
    let needs = [need("repo.read", &[]), need("llm", &[])];
    let given = usual(&needs, Limits::default());
    let mut held = given.clone();
    Capability::Llm.close(&mut held);
    held.withheld.insert("llm".to_owned());
    held.repo_read.as_mut().unwrap().paths = ["src".parse().unwrap()].into_iter().collect();
    held.limits.memory_bytes = 1 << 20;
    let more = [need("repo.read", &[]), need("llm", &[]), need("random", &[])];
    for given in [Some(&given), None] {
        let kept = next(&Ceiling::default().with_removed(&held, given), &more);
        assert!(kept.llm.is_none() && kept.withheld.contains("llm"));
        let read = kept.repo_read.as_ref().unwrap();
        assert!(read.covers("src/a") && !read.covers("docs"));
        assert_eq!(kept.limits.memory_bytes, 1 << 20);
        assert!(kept.has(Capability::Random), "it is new, and shown as such");
    }
    // Nothing was taken away: new needs are met in full.
    let before = usual(&[need("repo.read", &["src"])], Limits::default());
    let narrowed = Ceiling::default().with_removed(&before, Some(&before));
    assert!(narrowed.is_nothing(), "{narrowed:?}");
}

// CAPABILITY-44
#[test]
fn a_version_that_needs_less_does_not_give_anything_back() {
    let all = [need("repo.read", &[]), need("llm", &[]), need("clock", &[])];
    let given = usual(&all, Limits::default());
    let mut held = given.clone();
    for capability in [Capability::Llm, Capability::Clock] {
        capability.close(&mut held);
    }
    held.withheld.insert("llm".to_owned());
    held.repo_read.as_mut().unwrap().paths = ["src".parse().unwrap()].into_iter().collect();
    let first = Ceiling::default().with_removed(&held, Some(&given));
    // A version without any need, and one that reads elsewhere.
    let mut last = first.clone();
    for needs in [vec![], vec![need("repo.read", &["docs"])]] {
        let between = next(&last, &needs);
        last = last.with_removed(&between, Some(&between));
    }
    assert_eq!(last, first);
    let again = next(&last, &all);
    let read = again.repo_read.as_ref().unwrap();
    assert!(read.covers("src/a") && !read.covers("docs") && !read.covers("a"));
    assert!(again.llm.is_none() && !again.has(Capability::Clock));
    assert_eq!(again.withheld, ["clock".to_owned(), "llm".to_owned()].into());
    // The number as it is written in the file.
    let text = toml::to_string(&last).unwrap();
    assert_eq!(toml::from_str::<Ceiling>(&text).unwrap(), last);
}

// AUDIT-9
#[test]
fn what_is_in_force_is_said_in_words_and_by_one_digest() {
    let words = Grant::builtin_tool().in_words();
    let said = |start: &str| words.iter().any(|word| word.starts_with(start));
    assert!(said("repo.read file_bytes=16777216 query_bytes=536870912"), "{words:?}");
    assert!(said("repo.write") && said("limits memory_bytes="), "{words:?}");
    assert_ne!(Grant::builtin_tool().sha256(), Grant::builtin_scout().sha256());
    let nothing = Grant::default().in_words();
    assert!(nothing.iter().all(|word| word.starts_with("limits ")), "{nothing:?}");
}
