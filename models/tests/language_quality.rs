//! Imported models say what a float32 reference says of the same file.
#![allow(clippy::unwrap_used)] // A test, helpers included.

mod language;

use firstword_models::language::import::Precision;
use language::Fused;
use serde_json::Value;

/// Against Hugging Face transformers in float32 (goldens, which say how they were made): mean KL over the 32 most
/// likely tokens, share of equal most likely tokens, perplexity divided by the reference's.
fn compare(entry: &str, golden: &str, precision: Precision) -> Option<[f64; 3]> {
    let golden = language::golden(golden)?;
    let source = language::gguf(entry)?;
    let library = language::library()?;
    let folder = tempfile::tempdir().unwrap();
    let goal = folder.path().join("model");
    let mut request = language::request(&source, &goal, precision);
    request.window = Some(512);
    let manifest = language::import(&request);
    let golden: Value = serde_json::from_slice(&std::fs::read(golden).unwrap()).unwrap();
    let ids: Vec<i64> = serde_json::from_value(golden["ids"].clone()).unwrap();
    let shape = [manifest.layers, manifest.kv_heads, manifest.head_dim];
    let mut model = Fused::new(library, &goal, shape, 512);
    let rows: Vec<i64> = (0..ids.len() as i64).collect();
    let logits = model.run(&ids, Some(&rows));
    let rows: Vec<&[f32]> = logits.chunks(manifest.vocabulary).collect();
    assert_eq!(rows.len(), ids.len());
    let (mut kl, mut same, mut nll) = (0.0, 0.0, 0.0);
    for (position, row) in rows.iter().enumerate() {
        let most = row.iter().fold(f32::MIN, |most, &v| most.max(v));
        let sum: f64 = row.iter().map(|&v| f64::from(v - most).exp()).sum();
        let log = |id: usize| f64::from(row[id] - most) - sum.ln();
        let top = &golden["top32"][position];
        let likely: Vec<usize> = serde_json::from_value(top["ids"].clone()).unwrap();
        let expected: Vec<f64> = serde_json::from_value(top["logprobs"].clone()).unwrap();
        kl += likely
            .iter()
            .zip(&expected)
            .map(|(&id, p)| p.exp() * (p - log(id)))
            .sum::<f64>();
        let first = (0..row.len())
            .max_by(|&a, &b| row[a].total_cmp(&row[b]))
            .unwrap();
        same += f64::from(u8::from(first == likely[0]));
        if let Some(&next) = ids.get(position + 1) {
            nll -= log(next as usize);
        }
    }
    let perplexity = (nll / (ids.len() - 1) as f64).exp();
    let measured = [
        kl / ids.len() as f64,
        same / ids.len() as f64,
        perplexity / golden["perplexity"].as_f64().unwrap(),
    ];
    println!(
        "{entry} {}: KL, top-1, perplexity ratio {measured:?}",
        precision.name()
    );
    Some(measured)
}

fn assert_exact([kl, top1, perplexity]: [f64; 3]) {
    assert!(kl.abs() <= 0.006, "KL {kl}");
    assert!(
        (perplexity - 1.0).abs() <= 0.01,
        "perplexity ratio {perplexity}"
    );
    assert!(top1 >= 0.95, "top-1 {top1}");
}

#[test]
fn smollm2_exact_is_the_reference_within_six_thousandths_of_kl() {
    let measured = compare(
        "smollm2-135m-instruct",
        "smollm2-135m-instruct.json",
        Precision::Exact,
    );
    measured.map(assert_exact);
}

#[test]
fn gemma_3_exact_is_the_reference_within_six_thousandths_of_kl() {
    let measured = compare("gemma-3-270m", "gemma-3-270m.json", Precision::Exact);
    measured.map(assert_exact);
}
