//! What a task costs: in its result, its events and the records of earlier tasks; and the limits of it.

use act_core::Usd;
use serde_json::{Value, json};

use crate::harness::script::{attempt, done, opening, script};
use crate::harness::{Act, Done, json};

const STEPS: &[(&str, &str)] = &[("test", "true")];
/// 600 · $2 + 400 · $0.50 + 10 · $10, each of a million tokens: $0.0015 for each request of [`turns`].
pub(crate) const PRICES: &str =
    "[prices.\"scripted\"]\ninput = 2\ncached_input = 0.5\ncache_write = 2.5\noutput = 10\n";
const REQUEST: &str = "0.0015";

fn repository() -> Act {
    Act::new().without_engine().file("answer.txt", "none\n").pipeline("busybox:stable", STEPS)
}

pub(crate) fn turns() -> Vec<Value> {
    let turns = opening("write it").into_iter().chain(attempt("right\n")).chain([done()]);
    let priced = |mut turn: Value| {
        turn["usage"] = json!({"input": 1000, "cached": 400, "output": 10});
        turn
    };
    turns.map(priced).collect()
}

fn dry_run(act: Act, arguments: &[&str]) -> Done {
    act.act([&["run", "--dry-run"], arguments, &["write it"]].concat())
}

/// Returns the sum of the costs of all requests, and the cost of the task.
fn costs(told: &Done) -> (Usd, Value) {
    let events = json::lines(told);
    let mut sum = Usd::ZERO;
    for event in events.iter().filter(|event| event["type"] == "model_request") {
        sum += Usd::parse(event["cost_usd"].as_str().unwrap()).unwrap();
    }
    (sum, events.last().unwrap()["cost_usd"].clone())
}

/// MODEL-53, CLI-34, CLI-52
#[test]
fn a_task_says_what_it_cost_in_its_result_its_events_history_and_metrics() {
    let act = repository().script(&script(turns())).config_toml(PRICES);
    let told = dry_run(act.clone(), &["--json"]).status(0);
    let requests = u64::try_from(told.requests().len()).unwrap();
    assert!(requests > 1, "{told}");
    let cost = Usd::from_nanos(Usd::parse(REQUEST).unwrap().nanos() * requests);
    assert_eq!(costs(&told), (cost, json!(cost.to_string())), "{told}");

    let history = act.clone().act(["history", "--json"]).status(0).document("history");
    assert_eq!(history["tasks"][0]["cost_usd"], cost.to_string());
    let shown = format!("cost: {}", cost.rounded());
    act.clone().act(["history"]).status(0).stdout_has(&shown);
    let metrics = act.clone().act(["metrics", "--json"]).status(0).document("metrics");
    assert_eq!(metrics["cost_usd"], cost.to_string());
    assert_eq!(metrics["cost_unknown_tasks"], 0);
    let line = format!("act_cost_usd_total {cost}\n");
    act.act(["metrics", "--prometheus"]).status(0).stdout_has(&line);

    let told = dry_run(repository().script(&script(turns())).config_toml(PRICES), &[]).status(0);
    told.stderr_has(&format!("Cost: {}\n", cost.rounded()));
}

/// MODEL-53: unknown, and never zero.
#[test]
fn the_cost_of_a_model_without_a_price_is_unknown_everywhere() {
    let act = repository().script(&script(turns()));
    let told = dry_run(act.clone(), &["--json"]).status(0);
    let events = json::lines(&told);
    for event in &events {
        if ["model_request", "task_finished"].contains(&event["type"].as_str().unwrap()) {
            assert_eq!(event["cost_usd"], Value::Null, "{event}");
        }
    }
    let history = act.clone().act(["history", "--json"]).status(0).document("history");
    assert_eq!(history["tasks"][0]["cost_usd"], Value::Null);
    act.clone().act(["history"]).status(0).stdout_has("cost: unknown");
    let metrics = act.clone().act(["metrics", "--json"]).status(0).document("metrics");
    assert_eq!((&metrics["cost_usd"], &metrics["cost_unknown_tasks"]), (&json!("0.00"), &json!(1)));
    act.act(["metrics"]).status(0).stdout_has("tasks of unknown cost  1");
    let told = dry_run(repository().script(&script(turns())), &[]).status(0);
    told.stderr_has("Cost: unknown\n");
}

/// MODEL-54, CLI-62: the limit is checked before each request, and the task ends like one without tokens.
#[test]
fn a_task_ends_stuck_when_its_cost_is_spent() {
    let ended = |act: Act, arguments: &[&str]| {
        let told = dry_run(act.script(&script(turns())), arguments).status(3);
        // Two requests reach the limit; the third is not sent.
        assert_eq!(told.requests().len(), 2, "{told}");
        told.stderr_has("cost budget").stderr_has("--max-cost")
    };
    let limit = "[limits]\nmax_cost = 0.003\n";
    ended(repository().config_toml(PRICES), &["--max-cost", "0.003"]).stderr_has("budget");
    ended(repository().config_toml(&format!("{limit}{PRICES}")), &[]);
    let act = repository().config_toml(PRICES).script(&script(turns()));
    let told = dry_run(act, &["--json", "--max-cost", "0.0029"]).status(3);
    let last = json::lines(&told).pop().unwrap();
    assert_eq!((&last["state"], &last["reason"]), (&json!("STUCK"), &json!("budget")), "{last}");
    assert_eq!(last["cost_usd"], "0.003");
}

fn with_limits(act: Act, limits: &str) -> Act {
    act.file(
        "agent.yaml",
        format!(
            "verification:\n  container_image: busybox:stable\n  steps: [{{name: test, command: \"true\"}}]\nlimits: {{{limits}}}\n"
        ),
    )
}

/// CONFIG-18, CONFIG-65: the smaller of both files, in place of both the flag, and never more than the policy.
#[test]
fn a_clone_lowers_the_limits_of_a_task_and_never_raises_them() {
    let requests = |yaml: &str, config: &str, policy: &str, arguments: &[&str]| {
        let act = with_limits(repository(), yaml).config_toml(&format!("{config}{PRICES}"));
        let file = act.repo().parent().unwrap().join("policy.toml");
        std::fs::write(&file, policy).unwrap();
        let act = act.env("ACT_POLICY_FILE", file).script(&script(turns()));
        dry_run(act, arguments).requests().len()
    };
    let (low, high) = ("[limits]\nmax_cost = 0.003\n", "[limits]\nmax_cost = 9\n");
    let all = requests("", "", "", &[]);
    assert!(all > 3);
    assert_eq!(requests("max_cost: 1000000", low, "", &[]), 2, "a clone raises nothing");
    assert_eq!(requests("max_cost: none", low, "", &[]), 2, "and lifts nothing");
    assert_eq!(requests("max_cost: 0.003", high, "", &[]), 2, "it lowers");
    assert_eq!(requests("max_cost: 0.003", low, "", &["--max-cost", "9"]), all, "a person raises");
    assert_eq!(requests("", high, low, &["--max-cost", "9"]), 2, "not above the policy");
    assert_eq!(
        requests("max_tokens: none, max_cost: 9", "[limits]\nmax_tokens = 2020\n", "", &[]),
        2
    );
    assert_eq!(
        requests("max_tokens: 9000000", "[limits]\nmax_tokens = 2020\n", "", &[]),
        2,
        "tokens are limited in the same way"
    );
}

/// MODEL-54: whoever limits the cost, nothing begins where the price of the model is not known.
#[test]
fn a_limit_of_cost_without_a_price_is_refused_before_the_first_request() {
    let limit = "[limits]\nmax_cost = 5\n";
    let cases: [(Act, &[&str]); 4] = [
        (repository(), &["--max-cost", "5"]),
        (repository().config_toml(limit), &[]),
        (with_limits(repository(), "max_cost: 5"), &[]),
        // The name of a model that has a price, at an address that is not its provider's.
        (repository().env("AGENT_LLM_MODEL", "claude-opus-5-5"), &["--max-cost", "5"]),
    ];
    for (act, arguments) in cases {
        let model = act.clone().script(&script(turns()));
        let told = dry_run(model.clone(), arguments).status(1);
        assert!(told.requests().is_empty(), "{told}");
        told.stderr_has("is not known").stderr_has("hint: write `[prices.");
        let told = dry_run(model, &[arguments, &["--json"]].concat()).status(1);
        assert_eq!(told.document("refusal")["code"], "price_unknown");
        let history = act.act(["history", "--json"]).status(0).document("history");
        assert_eq!(history["tasks"], json!([]), "nothing was accepted");
    }
    // The doctor says so before a task is refused.
    let doctor = |act: Act| {
        let report = act.script("turns: []").act(["doctor", "--json"]).document("doctor");
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "price").unwrap().clone()
    };
    let red = doctor(repository().config_toml(limit));
    assert_eq!(red["level"], "red", "{red}");
    assert_eq!(doctor(repository())["level"], "ok");
    let known = doctor(repository().config_toml(&format!("{limit}{PRICES}")));
    assert!(known["message"].as_str().unwrap().contains("$2.00 input"), "{known}");
}

/// CONFIG-64
#[test]
fn prices_that_cannot_be_are_refused_with_their_place() {
    for price in ["-1", "1000001", "nan", "inf", "\"2\"", "1e-12"] {
        let text = format!("[prices.\"scripted\"]\ninput = {price}\noutput = 1\n");
        let act = repository().config_toml(&text).script(&script(turns()));
        let told = dry_run(act, &[]).status(1);
        let told = told.stderr_has("config.toml:2:9: a price is a number of dollars");
        assert!(told.requests().is_empty(), "{told}");
    }
    for (limit, code) in [("0", 2), ("-1", 2), ("five", 2), ("1e3", 2), ("1000001", 2)] {
        let told = dry_run(repository(), &[&format!("--max-cost={limit}")]).status(code);
        told.stderr_has("a number of dollars above 0");
    }
    // A price of nothing is the word of a person, such as for a model on this machine.
    let free = "[limits]\nmax_cost = 0.01\n[prices.\"scripted\"]\ninput = 0\noutput = 0\n";
    let told = dry_run(repository().config_toml(free).script(&script(turns())), &["--json"]);
    assert_eq!(costs(&told.status(0)), (Usd::ZERO, json!("0.00")));
}
