//! Recipe `float`: 32-bit floats throughout. For small models in tests: matrices are turned in memory.

use std::collections::HashMap;
use std::io::Write;

use super::{LowerError, Place, Product, Recipe, Weight};
use crate::gguf::Kind;
use crate::onnx::{Builder, Element, Value, ints};

/// See the module.
#[derive(Debug, Default)]
pub struct Float {
    /// Embeddings laid down, by name.
    tables: HashMap<String, Value>,
}

impl Float {
    fn table(&mut self, g: &mut Builder, table: &Weight<'_>) -> Result<Value, LowerError> {
        let name = table.name();
        if let Some(value) = self.tables.get(&name) {
            return Ok(value.clone());
        }
        let shape = [table.rows(), table.columns()];
        let mut row = vec![0.0; table.columns()];
        let value = g.stream(&name, Element::F32, &shape, |out| {
            for n in 0..shape[0] {
                table.floats(n..n + 1, &mut row)?;
                floats(out, &row)?;
            }
            Ok::<_, LowerError>(())
        })?;
        self.tables.insert(name, value.clone());
        Ok(value)
    }
}

fn floats(out: &mut dyn Write, values: &[f32]) -> Result<(), LowerError> {
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Ok(out.write_all(&bytes)?)
}

impl Recipe for Float {
    fn name(&self) -> &'static str {
        "float"
    }

    fn bytes_per_weight(&self, _: Kind) -> f64 {
        4.0
    }

    fn product(
        &mut self,
        g: &mut Builder,
        input: &Value,
        weights: &[Weight<'_>],
        _: Place,
        _: bool,
    ) -> Result<Product, LowerError> {
        let mut products = Vec::new();
        for weight in weights {
            let (rows, columns) = (weight.rows(), weight.columns());
            let mut stored = vec![0.0; rows * columns];
            weight.floats(0..rows, &mut stored)?;
            let turned = g.stream(&weight.name(), Element::F32, &[columns, rows], |out| {
                for column in 0..columns {
                    let values: Vec<f32> = stored
                        .iter()
                        .skip(column)
                        .step_by(columns)
                        .copied()
                        .collect();
                    floats(out, &values)?;
                }
                Ok::<_, LowerError>(())
            })?;
            products.push(g.op("MatMul", &[input, &turned], &[]));
        }
        Ok(Product::Apart(products))
    }

    fn embedding(
        &mut self,
        g: &mut Builder,
        ids: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let table = self.table(g, table)?;
        Ok(g.op("Gather", &[&table, ids], &[]))
    }

    fn head(
        &mut self,
        g: &mut Builder,
        input: &Value,
        table: &Weight<'_>,
    ) -> Result<Value, LowerError> {
        let table = self.table(g, table)?;
        let turned = g.op("Transpose", &[&table], &[ints("perm", &[1, 0])]);
        Ok(g.op("MatMul", &[input, &turned], &[]))
    }
}
