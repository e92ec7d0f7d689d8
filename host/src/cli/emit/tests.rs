use crate::cli::Exit;
use crate::cli::tests::{Desk, file, path};

#[tokio::test]
async fn emit_lines_takes_ids_from_the_payloads_so_that_a_repeat_inserts_nothing_twice() {
    let desk = Desk::new().await;
    let lines: String = (0..1_200).map(|n| format!("{{\"id\":\"o-{n}\"}}\n")).collect();
    let lines = file(&lines);
    let emit = ["emit", "order.created", path(&lines), "--lines", "--id-field", "id"];
    assert_eq!(desk.run(&emit).await.text, "1200 events emitted\n");
    assert_eq!(desk.run(&emit).await.text, "0 events emitted, 1200 existed already\n");
    assert_eq!(desk.statuses().await.len(), 1_200);
}

#[tokio::test]
async fn emit_lines_names_each_bad_line_and_emits_all_others() {
    let desk = Desk::new().await;
    let long = "x".repeat(256);
    let text = format!(
        "{{\"id\":\"a\"}}\n\n{{\"id\":\"{long}\"}}\nnot json\n{{\"id\":\"b\"}}\n{{\"id\":\"\"}}\n{{\"id\":\"c\"}}\n"
    );
    let lines = file(&text);
    let emit = ["emit", "order.x", path(&lines), "--lines", "--id-field", "id"];
    let answer = desk.run(&emit).await;
    assert_eq!(answer.exit, Exit::Problem);
    for part in [
        "line 3: event_id has 256 bytes; it has at most 255",
        "line 4: the line is not JSON",
        "line 6: event_id is empty",
        "3 events emitted; 3 lines were not emitted; mend them and emit the whole again",
    ] {
        assert!(answer.text.contains(part), "no {part} in {}", answer.text);
    }
    assert_eq!(desk.statuses().await.into_keys().collect::<Vec<_>>(), ["a", "b", "c"]);

    let answer = desk.run(&[&emit[..], &["--json"]].concat()).await;
    let told = answer.json();
    assert_eq!((answer.exit, &told["existed"], &told["refused"]), (Exit::Problem, &3.into(), &3.into()));
    assert_eq!(told["wrong_lines"][1]["line"], 4, "{told}");
    // Emitted once more, what has no ID of its own would come twice.
    let answer = desk.run(&["emit", "order.x", path(&lines), "--lines"]).await;
    assert!(answer.text.contains("1 line was not emitted; mend them and emit them alone"), "{}", answer.text);
}

#[tokio::test]
async fn emit_lines_takes_no_number_for_an_id_that_another_number_could_become() {
    let desk = Desk::new().await;
    let lines = file(
        "{\"id\":123456789012345678901}\n{\"id\":123456789012345678902}\n{\"id\":1.10}\n{\"id\":18446744073709551615}\n",
    );
    let answer = desk.run(&["emit", "order.x", path(&lines), "--lines", "--id-field", "id"]).await;
    assert_eq!(answer.exit, Exit::Problem);
    for line in ["line 1: ", "line 2: ", "line 3: ", "write it as a text"] {
        assert!(answer.text.contains(line), "no {line} in {}", answer.text);
    }
    assert_eq!(desk.statuses().await.into_keys().collect::<Vec<_>>(), ["18446744073709551615"]);
}

#[tokio::test]
async fn emit_lines_names_every_bad_line_where_the_good_ones_can_not_be_emitted_again() {
    let desk = Desk::new().await;
    let lines = file(&"not json\n".repeat(30));
    let answer = desk.run(&["emit", "order.x", path(&lines), "--lines", "--json"]).await;
    assert_eq!(answer.json()["wrong_lines"].as_array().map(Vec::len), Some(30));
    let answer = desk.run(&["emit", "order.x", path(&lines), "--lines", "--id-field", "id"]).await;
    assert!(answer.text.contains("line 20: ") && answer.text.contains("and 10 more"), "{}", answer.text);
}
