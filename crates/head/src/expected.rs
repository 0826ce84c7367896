//! The names and shapes of the tensors that make a head, as GGUF files have them.

use crate::layout::Layout;

/// Name, shape, and whether it must be of 32-bit floats, of every tensor of a head.
pub(crate) fn expected_tensors(layout: &Layout) -> Vec<(String, Vec<usize>, bool)> {
    let (hidden, width, inner) = (layout.hidden_width, layout.width, layout.feed_forward);
    let mut all = Vec::new();
    let mut matrix = |name: String, from: usize, to: usize| all.push((name, vec![from, to], false));
    for name in ["memory", "question", "option_question", "global", "option_context", "option_lexical"] {
        matrix(format!("decision.proj_{name}.weight"), hidden, width);
    }
    matrix("decision.scorer.weight".into(), 4 * width, width);
    matrix("decision.scorer_out.weight".into(), width, 1);
    matrix("token_types.weight".into(), width, 3);
    let blocks = layout.routing_blocks + layout.joint_blocks;
    for block in 0..blocks {
        let attentions: &[&str] = if block < layout.routing_blocks { &["cross_attn"] } else { &["cross_attn", "attn"] };
        for attention in attentions {
            for part in ["q", "k", "v", "o"] {
                matrix(format!("dec.blk.{block}.{attention}_{part}.weight"), width, width);
            }
        }
        matrix(format!("dec.blk.{block}.ffn_up.weight"), width, inner);
        matrix(format!("dec.blk.{block}.ffn_down.weight"), inner, width);
    }

    let mut vector = |name: String, length: usize| all.push((name, vec![length], true));
    let mut norm = |name: String, length: usize| {
        vector(format!("{name}.weight"), length);
        vector(format!("{name}.bias"), length);
    };
    norm("decision.hidden_norm".into(), hidden);
    for name in ["option_summary_norm", "field_norm", "option_norm"] {
        norm(format!("decision.{name}"), width);
    }
    for block in 0..blocks {
        norm(format!("dec.blk.{block}.cross_attn_norm"), width);
        norm(format!("dec.blk.{block}.ffn_norm"), width);
        let own = if block < layout.routing_blocks { "cross_attn_norm_kv" } else { "attn_norm" };
        norm(format!("dec.blk.{block}.{own}"), width);
    }
    vector("decision.scales".into(), 3);
    vector("decision.scorer.bias".into(), width);
    vector("decision.scorer_out.bias".into(), 1);
    for block in 0..blocks {
        let attentions: &[&str] = if block < layout.routing_blocks { &["cross_attn"] } else { &["cross_attn", "attn"] };
        for attention in attentions {
            for part in ["q", "k", "v", "o"] {
                vector(format!("dec.blk.{block}.{attention}_{part}.bias"), width);
            }
        }
        vector(format!("dec.blk.{block}.ffn_up.bias"), inner);
        vector(format!("dec.blk.{block}.ffn_down.bias"), width);
    }
    all
}
