//! The generation loop on a scripted model: whatever runs beside it, a request gives what it gives alone.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod scripted;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use firstword::language::{
    Cancel, Event, GenerateError, Generator, Options, Refused, Reply, Request, RequestId, RunError,
    Steps, Stop,
};
use firstword_audio::Stamp;
use firstword_models::language::sampling::Sampling;
use proptest::prelude::*;
use scripted::{EOS, Letters, Scripted, alone, letter};

fn options(chunk: usize) -> Options {
    Options {
        chunk,
        eos: EOS.to_vec(),
        ..Options::default()
    }
}

fn generator(slots: usize, window: usize, chunk: usize) -> Generator<Scripted> {
    Generator::new(Scripted::new(slots, window), options(chunk))
}

fn prompt(length: usize, seed: u32) -> Vec<u32> {
    (0..length as u32)
        .map(|i| 2 + (i * 7 + seed * 13 + i * i * seed) % 50)
        .collect()
}

fn drawn(seed: u64) -> Sampling {
    Sampling {
        temperature: 0.8,
        top_k: 20,
        repetition_penalty: 1.1,
        frequency_penalty: 0.2,
        seed,
        ..Sampling::default()
    }
}

fn request(prompt: Vec<u32>, max_tokens: usize, sampling: &Sampling) -> Request {
    Request {
        sampling: sampling.clone(),
        ..Request::new(prompt, max_tokens)
    }
}

/// What came of every request.
#[derive(Default)]
struct Ends {
    texts: BTreeMap<RequestId, String>,
    streamed: BTreeMap<RequestId, Vec<u32>>,
    replies: BTreeMap<RequestId, Reply>,
    failed: BTreeMap<RequestId, GenerateError>,
}

impl Ends {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Token {
                id, token, text, ..
            } => {
                assert!(!self.ended(id), "a token after the end");
                self.streamed.entry(id).or_default().push(token);
                self.texts.entry(id).or_default().push_str(text);
            }
            Event::Done { id, rest, reply } => {
                assert!(!self.ended(id), "two ends");
                self.texts.entry(id).or_default().push_str(&rest);
                assert_eq!(
                    self.streamed.get(&id).cloned().unwrap_or_default(),
                    reply.tokens
                );
                self.replies.insert(id, reply);
            }
            Event::Failed { id, error, .. } => {
                assert!(!self.ended(id), "two ends");
                self.failed.insert(id, error);
            }
        }
    }

    fn ended(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id) || self.failed.contains_key(&id)
    }
}

/// Runs until nothing is left; what the generator believes of its slots is so after every step.
fn run(generator: &mut Generator<Scripted>, ends: &mut Ends) {
    while generator.step(&mut |event| ends.take(event)) {
        consistent(generator);
    }
    consistent(generator);
}

fn consistent(generator: &Generator<Scripted>) {
    for held in generator.slots() {
        assert_eq!(generator.model().length(held.slot), held.tokens.len());
    }
    if generator.is_idle() {
        assert!(
            generator.slots().iter().all(|held| !held.busy),
            "a slot leaked"
        );
    }
}

fn expected(prompt: &[u32], max_tokens: usize, sampling: &Sampling) -> (Vec<u32>, bool) {
    alone(None, prompt, max_tokens, sampling)
}

fn check(reply: &Reply, prompt: &[u32], max_tokens: usize, sampling: &Sampling) {
    let (tokens, eos) = expected(prompt, max_tokens, sampling);
    assert_eq!(reply.tokens, tokens);
    assert_eq!(matches!(reply.stop, Stop::Eos(_)), eos);
}

#[test]
fn one_to_eight_sequences_that_join_and_leave_give_what_each_gives_alone() {
    for members in 1..=8usize {
        let mut generator = generator(members, 400, 16);
        let mut ends = Ends::default();
        let mut asked = Vec::new();
        for i in 0..members {
            let tokens = prompt(3 + 23 * i, i as u32);
            let (most, sampling) = (4 + 9 * i, drawn(i as u64));
            let id = generator
                .submit(request(tokens.clone(), most, &sampling))
                .unwrap();
            asked.push((id, tokens, most, sampling));
            // The next one joins while those before it are running.
            for _ in 0..=i {
                generator.step(&mut |event| ends.take(event));
            }
        }
        run(&mut generator, &mut ends);
        for (id, tokens, most, sampling) in &asked {
            check(&ends.replies[id], tokens, *most, sampling);
        }
        assert_eq!(ends.replies.len(), members);
    }
}

#[test]
fn running_replies_get_a_token_between_two_chunks_of_a_prompt() {
    let mut generator = generator(2, 400, 10);
    let mut ends = Ends::default();
    let mut first = request(prompt(5, 1), 60, &Sampling::default());
    first.ignore_eos = true;
    generator.submit(first).unwrap();
    generator.step(&mut |event| ends.take(event));
    generator
        .submit(request(prompt(55, 2), 1, &drawn(1)))
        .unwrap();
    run(&mut generator, &mut ends);
    let done = generator.model().done.lock().unwrap().clone();
    assert!(done.order.starts_with("pdpdpdpdpdpdpd"), "{}", done.order);
    assert_eq!(done.chunks, [5, 10, 10, 10, 10, 10, 5]);
}

#[test]
fn any_size_of_chunk_gives_the_same_reply() {
    let tokens = prompt(130, 3);
    for chunk in [0, 1, 7, 64, 128, 130, 1000] {
        let mut generator = generator(1, 400, chunk);
        let reply = generator
            .run_one(request(tokens.clone(), 20, &drawn(5)), &mut |_| {})
            .unwrap();
        check(&reply, &tokens, 20, &drawn(5));
    }
}

#[test]
fn the_next_turn_prefills_only_what_is_new() {
    let mut generator = generator(2, 400, 128);
    let mut turn = prompt(50, 1);
    let (mut before, mut new) = (0, 50);
    for round in 0..4 {
        let reply = generator
            .run_one(request(turn.clone(), 12, &drawn(round)), &mut |_| {})
            .unwrap();
        check(&reply, &turn, 12, &drawn(round));
        let prefilled = generator.model().done.lock().unwrap().prefilled;
        assert_eq!(prefilled - before, new);
        assert_eq!(reply.timing.cached_tokens as usize, turn.len() - new);
        before = prefilled;
        // The question of 7 tokens; and the reply's last token, if max_tokens ended it: that one was never fed.
        new = 7 + usize::from(reply.stop == Stop::Length);
        turn.extend(&reply.tokens);
        turn.extend(prompt(7, 9 + round as u32));
    }
}

#[test]
fn the_same_prompt_again_prefills_its_last_token_only() {
    let mut generator = generator(1, 400, 128);
    let tokens = prompt(50, 1);
    for _ in 0..2 {
        let reply = generator
            .run_one(request(tokens.clone(), 12, &drawn(3)), &mut |_| {})
            .unwrap();
        check(&reply, &tokens, 12, &drawn(3));
    }
    assert_eq!(generator.model().done.lock().unwrap().prefilled, 51);
}

#[test]
fn a_shared_system_prompt_is_prefilled_once() {
    let system = prompt(60, 1);
    let mut generator = generator(4, 400, 16);
    let mut ends = Ends::default();
    // Three conversations at the same time, each with 5 tokens of its own.
    let asked: Vec<_> = (0..3)
        .map(|i| {
            let tokens = [&system[..], &[2 + i, 9, 9, 9, 2 + i]].concat();
            let id = generator
                .submit(request(tokens.clone(), 10, &drawn(u64::from(i))))
                .unwrap();
            (id, tokens, drawn(u64::from(i)))
        })
        .collect();
    run(&mut generator, &mut ends);
    for (id, tokens, sampling) in &asked {
        check(&ends.replies[id], tokens, 10, sampling);
    }
    let done = generator.model().done.lock().unwrap().clone();
    assert_eq!((done.prefilled, done.copied), (65 + 5 + 5, 60 + 60));
}

#[test]
fn where_nothing_can_be_copied_the_prompt_is_prefilled() {
    let mut model = Scripted::new(2, 400);
    model.no_copies = true;
    let mut generator = Generator::new(model, options(16));
    for own in [3, 4] {
        let tokens = [prompt(40, 1), prompt(60, own)].concat();
        let reply = generator
            .run_one(request(tokens.clone(), 9, &drawn(1)), &mut |_| {})
            .unwrap();
        check(&reply, &tokens, 9, &drawn(1));
        assert_eq!(reply.timing.cached_tokens, 0);
    }
}

#[test]
fn with_more_requests_than_slots_each_has_its_turn() {
    let mut generator = generator(2, 400, 16);
    let mut ends = Ends::default();
    let asked: Vec<_> = (0..9u32)
        .map(|i| {
            let (tokens, sampling) = (prompt(5 + i as usize, i), drawn(u64::from(i)));
            (
                generator
                    .submit(request(tokens.clone(), 15, &sampling))
                    .unwrap(),
                tokens,
                sampling,
            )
        })
        .collect();
    run(&mut generator, &mut ends);
    for (id, tokens, sampling) in &asked {
        check(&ends.replies[id], tokens, 15, sampling);
    }
    let done = generator.model().done.lock().unwrap().clone();
    assert_eq!(done.batches.iter().max(), Some(&2));
}

#[test]
fn two_hundred_generations_leave_no_slot_behind() {
    let mut generator = generator(3, 200, 32);
    for i in 0..200u32 {
        let tokens = prompt(1 + (i as usize * 37) % 150, i % 11);
        let (most, sampling) = ((i as usize * 13) % 40, drawn(u64::from(i)));
        let reply = generator
            .run_one(request(tokens.clone(), most, &sampling), &mut |_| {})
            .unwrap();
        check(&reply, &tokens, most, &sampling);
        consistent(&generator);
    }
    let mut model = generator.into_model();
    assert!((0..3).all(|_| model.open().is_some()) && model.open().is_none());
}

#[test]
fn a_cancelled_reply_keeps_what_it_said_and_its_slot_is_used_again() {
    let mut generator = generator(1, 400, 16);
    let mut ends = Ends::default();
    let cancel = Cancel::default();
    let tokens = prompt(10, 1);
    let long = Request {
        ignore_eos: true,
        cancel: cancel.clone(),
        ..request(tokens.clone(), 100, &Sampling::default())
    };
    let id = generator.submit(long).unwrap();
    let waiting = generator
        .submit(request(tokens.clone(), 5, &drawn(1)))
        .unwrap();
    for _ in 0..6 {
        generator.step(&mut |event| ends.take(event));
    }
    cancel.cancel();
    run(&mut generator, &mut ends);
    // One token from the prompt's step, five from decode steps.
    assert_eq!(
        (ends.replies[&id].tokens.len(), &ends.replies[&id].stop),
        (6, &Stop::Cancelled)
    );
    check(&ends.replies[&waiting], &tokens, 5, &drawn(1));
    assert_eq!(ends.replies[&waiting].timing.cached_tokens, 9);
}

#[test]
fn a_prompt_can_be_cancelled_between_two_chunks() {
    let mut generator = generator(2, 400, 10);
    let mut ends = Ends::default();
    let cancel = Cancel::default();
    let tokens = prompt(100, 1);
    let long = Request {
        cancel: cancel.clone(),
        ..request(tokens.clone(), 5, &drawn(1))
    };
    let id = generator.submit(long).unwrap();
    for _ in 0..3 {
        generator.step(&mut |event| ends.take(event));
    }
    cancel.cancel();
    assert!(!generator.step(&mut |event| ends.take(event)));
    consistent(&generator);
    let reply = &ends.replies[&id];
    assert_eq!(
        (&reply.stop, reply.tokens.len(), reply.timing.chunks.len()),
        (&Stop::Cancelled, 0, 3)
    );
    // What was prefilled is not lost: the same prompt again goes on where it was.
    let again = generator
        .run_one(request(tokens.clone(), 5, &drawn(1)), &mut |_| {})
        .unwrap();
    check(&again, &tokens, 5, &drawn(1));
    assert_eq!(again.timing.cached_tokens, 30);
}

#[test]
fn a_request_cancelled_while_it_waits_never_runs() {
    let mut generator = generator(1, 400, 10);
    let cancel = Cancel::default();
    cancel.cancel();
    let gone = Request {
        cancel,
        ..request(prompt(5, 1), 5, &drawn(1))
    };
    let reply = generator.run_one(gone, &mut |_| {}).unwrap();
    assert_eq!((reply.stop, reply.timing.started), (Stop::Cancelled, None));
    assert_eq!(generator.model().done.lock().unwrap().order, "");
}

#[test]
fn what_does_not_fit_the_window_is_refused_before_anything_runs() {
    let mut open = generator(1, 100, 16);
    let mut refused = |length, most| {
        open.submit(request(prompt(length, 1), most, &drawn(1)))
            .unwrap_err()
    };
    assert_eq!(
        refused(100, 1).to_string(),
        "the prompt has 100 tokens, the model's window is 100 and a reply needs room for one at least: shorten the \
         prompt by 1 or more"
    );
    assert_eq!(
        refused(130, 1),
        Refused::PromptTooLong {
            prompt: 130,
            window: 100
        }
    );
    assert_eq!(refused(0, 1), Refused::EmptyPrompt);
    let strict = Options {
        shorten: false,
        ..options(16)
    };
    let mut strict = Generator::new(Scripted::new(1, 100), strict);
    let error = strict
        .submit(request(prompt(90, 1), 11, &drawn(1)))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the prompt has 90 tokens and max_tokens is 11, together more than the model's window of 100: ask for 10 \
         tokens at most"
    );
    assert!(strict.submit(request(prompt(90, 1), 10, &drawn(1))).is_ok());
    assert_eq!(open.model().done.lock().unwrap().order, "");
}

#[test]
fn a_reply_ends_where_the_window_does() {
    let mut generator = generator(1, 100, 16);
    let long = Request {
        ignore_eos: true,
        ..request(prompt(90, 1), usize::MAX, &drawn(1))
    };
    let reply = generator.run_one(long, &mut |_| {}).unwrap();
    assert_eq!((reply.tokens.len(), reply.stop), (10, Stop::Window));
}

#[test]
fn no_tokens_and_one_token_are_what_they_say() {
    let mut generator = generator(1, 100, 16);
    let greedy = Sampling::default();
    let none = generator
        .run_one(request(prompt(20, 1), 0, &greedy), &mut |_| {})
        .unwrap();
    assert_eq!((none.tokens.len(), none.stop), (0, Stop::Length));
    let one = Request {
        ignore_eos: true,
        ..request(prompt(20, 1), 1, &greedy)
    };
    let one = generator.run_one(one, &mut |_| {}).unwrap();
    assert_eq!(
        (one.tokens.len(), one.stop, one.timing.cached_tokens),
        (1, Stop::Length, 19)
    );
    assert_eq!(generator.model().done.lock().unwrap().batches.len(), 0);
}

#[test]
fn nonsense_is_refused_before_anything_runs() {
    let mut generator = generator(1, 100, 16);
    let cold = Sampling {
        temperature: -1.0,
        ..Sampling::default()
    };
    let error = generator
        .submit(request(prompt(5, 1), 5, &cold))
        .unwrap_err();
    assert!(
        error.to_string().starts_with("temperature is -1: "),
        "{error}"
    );
    let error = generator
        .submit(request(vec![53], 5, &drawn(1)))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the prompt names token 53: the model has tokens 0 to 52"),
        "{error}"
    );
}

#[test]
fn requests_beyond_the_queue_are_refused() {
    let few = Options {
        waiting: 2,
        ..options(16)
    };
    let mut generator = Generator::new(Scripted::new(1, 100), few);
    let mut submit = || generator.submit(request(prompt(5, 1), 5, &drawn(1)));
    assert!(submit().is_ok() && submit().is_ok());
    assert_eq!(submit(), Err(Refused::Busy { waiting: 2 }));
}

#[test]
fn a_stop_string_across_tokens_ends_the_reply_and_is_not_shown() {
    let greedy = Sampling::default();
    let tokens = prompt(12, 4);
    let free = |stops: &[&str]| Request {
        ignore_eos: true,
        text: Some(Letters::until(stops)),
        ..request(tokens.clone(), 30, &greedy)
    };
    let mut generator = generator(1, 100, 16);
    let mut whole = String::new();
    let reply = generator
        .run_one(free(&[]), &mut |text| whole.push_str(text))
        .unwrap();
    assert_eq!(
        whole,
        reply
            .tokens
            .iter()
            .map(|&token| letter(token))
            .collect::<String>()
    );
    // Letters 8 to 10 of what it says, found only when the third of them is there.
    let stop = &whole[8..11];
    let mut shown = Vec::new();
    let reply = generator
        .run_one(free(&[stop]), &mut |text| shown.push(text.to_owned()))
        .unwrap();
    let end = whole.find(stop).unwrap();
    assert_eq!(shown.concat(), whole[..end]);
    assert_eq!(
        (reply.tokens.len(), reply.stop),
        (end + 3, Stop::StopString(stop.to_owned()))
    );
    // One that does not come to its end is shown in the end.
    let almost = format!("{}\u{7f}", &whole[28..30]);
    let mut shown = String::new();
    generator
        .run_one(free(&[&almost]), &mut |text| shown.push_str(text))
        .unwrap();
    assert_eq!(shown, whole);
}

#[test]
fn a_failing_chunk_ends_its_request_only() {
    let mut model = Scripted::new(3, 400);
    // Prompt, decode, chunk, decode, chunk: the second chunk of the second request.
    model.failing = Some(4);
    let mut generator = Generator::new(model, options(10));
    let mut ends = Ends::default();
    let (short, long, after) = (prompt(5, 1), prompt(40, 2), prompt(8, 3));
    assert!(expected(&short, 30, &drawn(8)).0.len() > 2);
    let one = generator
        .submit(request(short.clone(), 30, &drawn(8)))
        .unwrap();
    let two = generator
        .submit(request(long.clone(), 5, &drawn(2)))
        .unwrap();
    let three = generator
        .submit(request(after.clone(), 5, &drawn(3)))
        .unwrap();
    run(&mut generator, &mut ends);
    check(&ends.replies[&one], &short, 30, &drawn(8));
    check(&ends.replies[&three], &after, 5, &drawn(3));
    let error = ends.failed[&two].to_string();
    assert!(
        error.starts_with("a prefill chunk of 10 tokens failed: "),
        "{error}"
    );
    // And the request works when it is made again.
    let again = generator
        .run_one(request(long.clone(), 5, &drawn(2)), &mut |_| {})
        .unwrap();
    check(&again, &long, 5, &drawn(2));
}

#[test]
fn a_failing_decode_step_ends_its_batch_and_no_other_request() {
    let mut model = Scripted::new(3, 400);
    // Prompt, decode of one, prompt, decode of two, decode of two.
    model.failing = Some(4);
    let mut generator = Generator::new(model, options(100));
    let mut ends = Ends::default();
    let started: Vec<_> = (0..2u32)
        .map(|i| {
            let both = Request {
                ignore_eos: true,
                ..request(prompt(5, i), 30, &drawn(u64::from(i)))
            };
            generator.submit(both).unwrap()
        })
        .collect();
    for _ in 0..4 {
        generator.step(&mut |event| ends.take(event));
    }
    let later = prompt(9, 7);
    let mut free = Ends::default();
    generator.step(&mut |event| free.take(event));
    assert_eq!(free.failed.len(), 2);
    assert!(started.iter().all(|id| {
        free.failed[id].to_string() == "a decode step of 2 tokens failed: the device was lost"
    }));
    let third = generator
        .submit(request(later.clone(), 9, &drawn(4)))
        .unwrap();
    run(&mut generator, &mut ends);
    check(&ends.replies[&third], &later, 9, &drawn(4));
}

#[test]
fn logits_that_are_no_numbers_end_their_request_and_are_not_reused() {
    let mut model = Scripted::new(1, 400);
    model.mad = Some(1);
    let mut generator = Generator::new(model, options(100));
    let tokens = prompt(9, 7);
    let made = || Request {
        ignore_eos: true,
        ..request(tokens.clone(), 5, &Sampling::default())
    };
    let error = generator.run_one(made(), &mut |_| {}).unwrap_err();
    assert!(
        matches!(error, RunError::Failed(GenerateError::Sampling(_))),
        "{error}"
    );
    consistent(&generator);
    let reply = generator.run_one(made(), &mut |_| {}).unwrap();
    assert_eq!((reply.tokens.len(), reply.timing.cached_tokens), (5, 0));
}

#[test]
fn a_reply_that_outgrows_the_original_window_is_prefilled_again_with_the_long_factors() {
    let mut model = Scripted::new(2, 400);
    model.original = Some(40);
    let mut generator = Generator::new(model, options(16));
    let tokens = prompt(30, 7);
    let long = || Request {
        ignore_eos: true,
        ..request(tokens.clone(), 40, &drawn(5))
    };
    // By hand: the reference draws EOS as a token like any other here, so only its beginning can be compared.
    let (expected, _) = alone(Some(40), &tokens, 40, &drawn(5));
    let reply = generator.run_one(long(), &mut |_| {}).unwrap();
    assert_eq!(reply.tokens[..expected.len()], expected);
    assert_eq!(reply.tokens.len(), 40);
    // 30 of the prompt, and all 41 once more when the 41st token comes.
    assert_eq!(generator.model().done.lock().unwrap().prefilled, 30 + 41);
    // A short prompt with the same beginning cannot use the long cache.
    let short = generator
        .run_one(request(tokens[..20].to_vec(), 3, &drawn(1)), &mut |_| {})
        .unwrap();
    assert_eq!(short.timing.cached_tokens, 0);
    assert_eq!(short.tokens, alone(Some(40), &tokens[..20], 3, &drawn(1)).0);
}

#[test]
fn stamps_are_taken_where_the_definitions_say() {
    // Every look at the clock is a microsecond later.
    let ticks = Arc::new(AtomicU64::new(0));
    let clock = {
        let ticks = ticks.clone();
        Box::new(move || Stamp::from_nanos(ticks.fetch_add(1, Ordering::Relaxed) * 1000))
    };
    let mut generator = Generator::with_clock(Scripted::new(1, 400), options(10), clock);
    let made = Request {
        ignore_eos: true,
        ..request(prompt(25, 1), 4, &Sampling::default())
    };
    let timing = generator.run_one(made, &mut |_| {}).unwrap().timing;
    let micros = |stamp: Stamp| stamp.as_nanos() / 1000;
    // 0 accepted, 1 started, 2-3 4-5 6-7 chunks, 8 first token, then for each of 3 tokens: begins, ends, handed over.
    assert_eq!(micros(timing.accepted), 0);
    assert_eq!(timing.started.map(micros), Some(1));
    assert_eq!(
        timing
            .chunks
            .iter()
            .map(|c| (c.tokens, micros(c.began)))
            .collect::<Vec<_>>(),
        [(10, 2), (10, 4), (5, 6)]
    );
    assert_eq!(timing.first_token.map(micros), Some(8));
    assert_eq!(timing.last_token.map(micros), Some(8 + 3 * 3));
    assert_eq!(
        timing
            .steps
            .iter()
            .map(|s| (s.micros, s.members))
            .collect::<Vec<_>>(),
        [(1, 1); 3]
    );
    assert_eq!(timing.time_per_output_token().unwrap().as_micros(), 3);
    assert_eq!(
        (
            timing.prompt_tokens,
            timing.output_tokens,
            timing.cached_tokens
        ),
        (25, 4, 0)
    );
}

#[test]
fn a_model_without_slots_says_so() {
    let error = generator(0, 100, 16)
        .run_one(request(prompt(5, 1), 5, &drawn(1)), &mut |_| {})
        .unwrap_err();
    assert_eq!(error, RunError::Failed(GenerateError::NoSlot));
}

#[derive(Clone, Debug)]
struct Asked {
    system: u32,
    length: usize,
    own: u32,
    most: usize,
    greedy: bool,
    steps_before: usize,
    cancelled_after: Option<usize>,
}

fn asked() -> impl Strategy<Value = Asked> {
    let cancelled = proptest::option::weighted(0.2, 0usize..12);
    (
        0u32..3,
        0usize..60,
        0u32..5,
        0usize..25,
        any::<bool>(),
        0usize..9,
        cancelled,
    )
        .prop_map(
            |(system, length, own, most, greedy, steps_before, cancelled_after)| Asked {
                system,
                length,
                own,
                most,
                greedy,
                steps_before,
                cancelled_after,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    // Whatever comes when, is cancelled when, fails when: every request that ends by itself gives what it gives alone.
    #[test]
    fn every_schedule_gives_every_request_its_own_reply(
        schedule in proptest::collection::vec(asked(), 1..14),
        slots in 1usize..6, chunk in 1usize..40, original in proptest::option::of(20usize..90),
        failing in proptest::option::weighted(0.3, 0usize..60), whole in any::<bool>(),
    ) {
        let mut model = Scripted::new(slots, 120);
        model.whole = whole;
        (model.original, model.failing) = (original, failing);
        let mut generator = Generator::new(model, options(chunk));
        let mut ends = Ends::default();
        let mut all = Vec::new();
        let mut cancels: Vec<(usize, Cancel)> = Vec::new();
        for (i, ask) in schedule.iter().enumerate() {
            for _ in 0..ask.steps_before {
                generator.step(&mut |event| ends.take(event));
                consistent(&generator);
                cancels.retain_mut(|(left, cancel)| {
                    if *left == 0 { cancel.cancel(); }
                    *left = left.saturating_sub(1);
                    !cancel.is_cancelled()
                });
            }
            let tokens = [prompt(20, ask.system), prompt(ask.length + 1, 10 + ask.own)].concat();
            let sampling = if ask.greedy { Sampling::default() } else { drawn(i as u64) };
            let made = request(tokens.clone(), ask.most, &sampling);
            if let Some(after) = ask.cancelled_after {
                cancels.push((after, made.cancel.clone()));
            }
            all.push((generator.submit(made).unwrap(), tokens, ask, sampling));
        }
        run(&mut generator, &mut ends);
        for (id, tokens, ask, sampling) in all {
            prop_assert!(ends.ended(id));
            let Some(reply) = ends.replies.get(&id) else {
                prop_assert!(failing.is_some());
                continue;
            };
            let (expected, eos) = alone(original, &tokens, ask.most, &sampling);
            if reply.stop == Stop::Cancelled {
                prop_assert!(ask.cancelled_after.is_some());
                prop_assert!(expected.starts_with(&reply.tokens));
            } else {
                prop_assert_eq!(&reply.tokens, &expected);
                prop_assert_eq!(matches!(reply.stop, Stop::Eos(_)), eos);
            }
        }
    }
}
