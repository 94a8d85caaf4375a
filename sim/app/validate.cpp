// SPDX-License-Identifier: Apache-2.0
// plansim validate: predicts published measurements and prints how far off the predictions are.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <thread>

#include "sim/app/commands.hpp"
#include "sim/app/outcome.hpp"
#include "sim/app/validate/validate.hpp"
#include "sim/base/error.hpp"
#include "sim/base/names.hpp"
#include "sim/base/table.hpp"
#include "sim/replay/isolate.hpp"

namespace plansim {
namespace {

struct Kind {
    const char* name;
    std::vector<std::string> texts;  // columns
    std::vector<std::string> numbers;
    std::vector<ValidatedRow> (*validate)(const MeasuredTable&, const ValidateOptions&);

    [[nodiscard]] std::vector<std::string> columns() const {
        std::vector<std::string> all = texts;
        all.insert(all.end(), numbers.begin(), numbers.end());
        return all;
    }
};

const std::array<Kind, 5>& kinds() {
    static const std::array<Kind, 5> all{
        {{"gemm",
          {"id", "source", "gpu_type", "dtype", "library", "notes", "quality"},
          {"batch", "m", "n", "k", "tflops"},
          validate_gemm},
         {"collectives",
          {"id", "source", "system", "gpu_type", "intra_fabric", "inter_fabric", "collective", "dtype", "library",
           "notes", "quality"},
          {"gpus", "nodes", "gpus_per_node", "bytes", "time_us", "algbw_GBps", "busbw_GBps"},
          validate_collectives},
         {"hbm_attention", {"source", "gpu_type", "metric", "unit"}, {"value"}, validate_attention},
         {"training",
          {"id", "source", "system", "gpu_type", "intra_fabric", "inter_fabric", "model", "gated_ffn", "sp",
           "zero_or_fsdp", "recompute", "dtype", "overlap_notes", "metric", "unit", "uncertain_fields", "quality",
           "alt_metrics"},
          {"gpu_mem_gb",
           "gpus",
           "gpus_per_node",
           "intra_bw_GBps_per_gpu",
           "inter_bw_GBps_per_gpu",
           "layers",
           "hidden",
           "heads",
           "kv_heads",
           "head_dim",
           "ffn",
           "experts",
           "topk",
           "vocab",
           "seq",
           "tp",
           "pp",
           "vpp",
           "cp",
           "dp",
           "ep",
           "etp",
           "mbs",
           "gbs",
           "value"},
          validate_training},
         {"memory",
          {"id", "source", "system", "gpu_type", "model", "gated_ffn", "sp", "zero_or_fsdp", "recompute", "dtype",
           "metric", "unit", "notes", "uncertain_fields", "quality"},
          {"gpu_mem_gb", "gpus", "layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "tp", "pp", "vpp",
           "cp", "dp", "mbs", "gbs", "value"},
          validate_memory}}};
    return all;
}

/// A cell that should hold a number and does not is a fault of the table, not a row that cannot be predicted.
void check_numbers(const MeasuredTable& table, const Kind& kind) {
    for (const MeasuredRow& row : table.rows)
        for (const std::string& column : kind.numbers)
            static_cast<void>(row.number(column));  // throws with the place of the cell
}

std::vector<std::string> missing_from(const std::vector<std::string>& wanted, const std::vector<std::string>& present) {
    std::vector<std::string> result;
    for (const std::string& name : wanted)
        if (std::find(present.begin(), present.end(), name) == present.end()) result.push_back(name);
    return result;
}

/// The kind with these columns; the nearest one says what is wrong otherwise.
const Kind& kind_of(const MeasuredTable& table) {
    const Kind* nearest = nullptr;
    std::size_t least = 0;
    for (const Kind& kind : kinds()) {
        const std::size_t wrong =
            missing_from(kind.columns(), table.columns).size() + missing_from(table.columns, kind.columns()).size();
        if (nearest == nullptr || wrong < least) {
            nearest = &kind;
            least = wrong;
        }
    }
    const auto fail = [&](const std::string& problem) {
        throw InputError(fmt::format("{}:1: error: {}", table.file, problem));
    };
    if (missing_from(table.columns, nearest->columns()).size() == table.columns.size()) {
        std::vector<std::string> names;
        for (const Kind& kind : kinds())
            names.emplace_back(kind.name);
        fail(fmt::format("no table of measurements that is known (one of {})", fmt::join(names, ", ")));
    }
    const auto missing = missing_from(nearest->columns(), table.columns);
    if (!missing.empty())
        fail(fmt::format("missing column '{}' of a table of kind {}", missing.front(), nearest->name));
    const auto unknown = missing_from(table.columns, nearest->columns());
    if (!unknown.empty())
        fail(fmt::format("unknown column {} in a table of kind {}", in_quotes(unknown.front()), nearest->name));
    return *nearest;
}

// ---- rows in processes of their own -------------------------------------------------------------------------------

std::string pack(const std::vector<ValidatedRow>& rows) {
    Json json = Json::array();
    for (const ValidatedRow& row : rows)
        json.push_back({row.id, row.source, row.gpu, row.group, row.metric, row.measured, row.predicted,
                        std::isnan(row.baseline) ? Json() : Json(row.baseline), row.skipped, row.inferred, row.sweep,
                        row.samples});
    return json_text(json);
}

void unpack(const std::string& text, std::vector<ValidatedRow>& rows) {
    for (const Json& cells : Json::parse(text)) {
        ValidatedRow row{cells[0], cells[1], cells[2], cells[3], cells[4],  cells[5],
                         cells[6], {},       cells[8], cells[9], cells[10], cells[11]};
        if (cells[7].is_number())
            row.baseline = cells[7];
        else
            row.baseline = std::numeric_limits<double>::quiet_NaN();
        rows.push_back(std::move(row));
    }
}

std::vector<ValidatedRow> validate_all(const MeasuredTable& table, const Kind& kind, const ValidateOptions& options,
                                       int jobs) {
    // Enough batches that a slow one keeps no core waiting for long, few enough that starting them costs nothing.
    const std::size_t size = std::max<std::size_t>(1, table.rows.size() / (8 * static_cast<std::size_t>(jobs)));
    std::vector<std::function<std::string()>> works;
    for (std::size_t start = 0; start < table.rows.size(); start += size)
        works.emplace_back([&, start] {
            const auto first = table.rows.begin() + static_cast<std::ptrdiff_t>(start);
            const auto last = first + static_cast<std::ptrdiff_t>(std::min(size, table.rows.size() - start));
            return pack(kind.validate({table.file, table.columns, {first, last}}, options));
        });
    std::vector<ValidatedRow> rows;
    for (const std::string& text : run_isolated_all(works, jobs))
        unpack(text, rows);
    PLANSIM_CHECK(rows.size() == table.rows.size(), "a row was dropped or invented");
    return rows;
}

// ---- statistics ---------------------------------------------------------------------------------------------------

bool counts(const ValidatedRow& row) {
    return row.skipped.empty() && row.metric != "fits";
}

double error_pct(double predicted, double measured) {
    return 100 * (predicted / measured - 1);
}

/// Linear between the two nearest ranks.
double quantile(std::vector<double> values, double share) {
    std::sort(values.begin(), values.end());
    const double place = share * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return values[below] + (place - static_cast<double>(below)) * (values[above] - values[below]);
}

Json error_json(const std::vector<double>& errors) {
    if (errors.empty()) return Json::object();
    std::vector<double> sizes;
    double sum = 0;
    double sum_of_sizes = 0;
    for (const double error : errors) {
        sizes.push_back(std::abs(error));
        sum += error;
        sum_of_sizes += sizes.back();
    }
    const auto n = static_cast<double>(errors.size());
    return {{"mape_pct", sum_of_sizes / n},
            {"median_ape_pct", quantile(sizes, 0.5)},
            {"p90_ape_pct", quantile(sizes, 0.9)},
            {"bias_pct", sum / n}};
}

using Rows = std::vector<const ValidatedRow*>;

Json summary_json(const Rows& rows) {
    std::vector<double> errors;
    std::vector<double> baseline_errors;
    std::size_t skipped = 0;
    for (const ValidatedRow* row : rows) {
        if (!row->skipped.empty()) ++skipped;
        if (!counts(*row)) continue;
        errors.push_back(error_pct(row->predicted, row->measured));
        if (!std::isnan(row->baseline)) baseline_errors.push_back(error_pct(row->baseline, row->measured));
    }
    Json json{{"n", errors.size()}, {"skipped", skipped}};
    json.update(error_json(errors));
    if (!baseline_errors.empty()) json["baseline"] = error_json(baseline_errors);
    return json;
}

Json by(const Rows& rows, std::string ValidatedRow::*key) {
    std::map<std::string, Rows> groups;
    for (const ValidatedRow* row : rows)
        groups[row->*key].push_back(row);
    Json json = Json::object();
    for (const auto& [name, group] : groups)
        json[name.empty() ? "not stated" : name] = summary_json(group);
    return json;
}

Json row_json(const ValidatedRow& row) {
    Json json{{"id", row.id}, {"source", row.source}, {"gpu", row.gpu}, {"group", row.group}, {"metric", row.metric}};
    json["measured"] = row.measured;
    if (row.skipped.empty()) {
        json["predicted"] = row.predicted;
        if (row.metric != "fits") json["error_pct"] = error_pct(row.predicted, row.measured);
        if (!std::isnan(row.baseline)) {
            json["baseline"] = row.baseline;
            json["baseline_error_pct"] = error_pct(row.baseline, row.measured);
        }
    } else {
        json["skipped"] = row.skipped;
    }
    if (!row.inferred.empty()) json["inferred"] = row.inferred;
    return json;
}

/// Whether runs fit, as a classifier: right, called fitting though it ran out of memory, called too large though it
/// ran.
Json fits_json(const Rows& rows) {
    int right = 0;
    int false_fits = 0;
    int false_oom = 0;
    for (const ValidatedRow* row : rows) {
        if (!row->skipped.empty() || row->metric != "fits") continue;
        ++(row->predicted == row->measured ? right : row->predicted > row->measured ? false_fits : false_oom);
    }
    if (right + false_fits + false_oom == 0) return {};
    return {{"right", right}, {"false_fits", false_fits}, {"false_oom", false_oom}};
}

/// Ranks of values, ties share the middle one.
std::vector<double> ranks(const std::vector<double>& values) {
    std::vector<double> result;
    for (const double value : values) {
        const auto below = std::count_if(values.begin(), values.end(), [&](double other) { return other < value; });
        const auto equal = std::count(values.begin(), values.end(), value);
        result.push_back(static_cast<double>(below) + static_cast<double>(equal - 1) / 2);
    }
    return result;
}

/// Spearman's rank correlation.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
    const std::vector<double> x = ranks(a);
    const std::vector<double> y = ranks(b);
    const double mean = static_cast<double>(a.size() - 1) / 2;
    double xy = 0;
    double xx = 0;
    double yy = 0;
    for (std::size_t index = 0; index < a.size(); ++index) {
        xy += (x[index] - mean) * (y[index] - mean);
        xx += (x[index] - mean) * (x[index] - mean);
        yy += (y[index] - mean) * (y[index] - mean);
    }
    return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

/// How well configurations of one sweep are ranked: rank correlation of sweeps with 8 rows or more that differ by 1.5
/// times or more, and what the configuration predicted best loses against the one measured best in sweeps of 4 or more.
Json ranking_json(const Rows& rows) {
    std::map<std::string, Rows> sweeps;
    for (const ValidatedRow* row : rows)
        if (counts(*row) && !row->sweep.empty()) sweeps[row->sweep].push_back(row);
    Json json{{"sweeps", Json::array()}};
    double correlations = 0;
    int correlated = 0;
    double losses = 0;
    double worst = 0;
    for (const auto& [name, sweep] : sweeps) {
        if (sweep.size() < 4) continue;
        std::vector<double> measured;
        std::vector<double> predicted;
        for (const ValidatedRow* row : sweep) {
            measured.push_back(row->measured / row->samples);
            predicted.push_back(row->predicted / row->samples);
        }
        const auto [best, slowest] = std::minmax_element(measured.begin(), measured.end());
        const auto chosen = std::min_element(predicted.begin(), predicted.end()) - predicted.begin();
        const double loss = 100 * (measured[static_cast<std::size_t>(chosen)] / *best - 1);
        Json entry{{"sweep", name}, {"n", sweep.size()}, {"spread", *slowest / *best}, {"loss_pct", loss}};
        entry["rank_correlation"] = rank_correlation(measured, predicted);
        if (sweep.size() >= 8 && *slowest / *best >= 1.5) {
            correlations += entry["rank_correlation"].get<double>();
            ++correlated;
        }
        losses += loss;
        worst = std::max(worst, loss);
        json["sweeps"].push_back(std::move(entry));
    }
    const auto count = static_cast<double>(json["sweeps"].size());
    if (count == 0) return {};
    if (correlated > 0) json["mean_rank_correlation"] = correlations / correlated;
    json["mean_loss_pct"] = losses / count;
    json["worst_loss_pct"] = worst;
    return json;
}

Json report_json(const Kind& kind, const std::vector<ValidatedRow>& validated) {
    constexpr std::size_t kWorst = 10;
    Rows rows;
    Json json{{"format", 1}, {"kind", kind.name}, {"rows", Json::array()}};
    for (const ValidatedRow& row : validated) {
        rows.push_back(&row);
        json["rows"].push_back(row_json(row));
    }
    json["summary"] = summary_json(rows);
    json["by_source"] = by(rows, &ValidatedRow::source);
    json["by_gpu"] = by(rows, &ValidatedRow::gpu);
    json["by_group"] = by(rows, &ValidatedRow::group);
    if (const Json fits = fits_json(rows); !fits.is_null()) json["fits"] = fits;
    if (const Json ranking = ranking_json(rows); !ranking.is_null()) json["ranking"] = ranking;
    Rows worst;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(worst),
                 [](const ValidatedRow* row) { return counts(*row); });
    std::stable_sort(worst.begin(), worst.end(), [](const ValidatedRow* a, const ValidatedRow* b) {
        return std::abs(error_pct(a->predicted, a->measured)) > std::abs(error_pct(b->predicted, b->measured));
    });
    worst.resize(std::min(worst.size(), kWorst));
    json["worst"] = Json::array();
    for (const ValidatedRow* row : worst)
        json["worst"].push_back(row->id);
    return json;
}

// ---- text ---------------------------------------------------------------------------------------------------------

std::string percent(const Json& json, const char* key) {
    return json.contains(key) ? fmt::format("{:+.1f}", json[key].get<double>()).substr(key[0] == 'b' ? 0 : 1) : "";
}

std::string rows_text(const Json& rows, const Json* chosen) {
    Table table({"row", "gpu", "group", "metric", ">measured", ">predicted", ">error %", "inferred or why skipped"});
    const auto add = [&](const Json& row) {
        const auto number = [&](const char* key) {
            return row.contains(key) ? fmt::format("{:.5g}", row[key].get<double>()) : "";
        };
        std::string note = row.value("skipped", "");
        if (!note.empty()) note = "skipped: " + note;
        if (row.contains("inferred"))
            note += (note.empty() ? "" : "; ") +
                    fmt::format("{}", fmt::join(row["inferred"].get<std::vector<std::string>>(), ", "));
        table.add({row["id"], row["gpu"], row["group"], row["metric"], number("measured"), number("predicted"),
                   row.contains("error_pct") ? fmt::format("{:+.1f}", row["error_pct"].get<double>()) : "", note});
    };
    if (chosen == nullptr)
        for (const Json& row : rows)
            add(row);
    else
        for (const Json& id : *chosen)
            for (const Json& row : rows)
                if (row["id"] == id) add(row);
    return table.str();
}

std::string groups_text(const std::string& title, const Json& groups, bool baseline) {
    std::vector<std::string> headers{title, ">rows", ">skipped", ">median %", ">mean %", ">p90 %", ">bias %"};
    if (baseline) headers.insert(headers.end(), {">baseline median %", ">baseline bias %"});
    Table table(headers);
    for (const auto& [name, figures] : groups.items()) {
        std::vector<std::string> cells{name,
                                       std::to_string(figures["n"].get<std::size_t>()),
                                       std::to_string(figures["skipped"].get<std::size_t>()),
                                       percent(figures, "median_ape_pct"),
                                       percent(figures, "mape_pct"),
                                       percent(figures, "p90_ape_pct"),
                                       percent(figures, "bias_pct")};
        if (baseline) {
            const Json of_baseline = figures.value("baseline", Json::object());
            cells.push_back(percent(of_baseline, "median_ape_pct"));
            cells.push_back(percent(of_baseline, "bias_pct"));
        }
        table.add(cells);
    }
    return table.str();
}

std::string ranking_text(const Json& ranking) {
    Table table({"sweep", ">rows", ">slowest / best", ">rank correlation", ">loss of the choice %"});
    for (const Json& sweep : ranking["sweeps"])
        table.add({sweep["sweep"], std::to_string(sweep["n"].get<int>()),
                   fmt::format("{:.2f}", sweep["spread"].get<double>()),
                   fmt::format("{:.2f}", sweep["rank_correlation"].get<double>()),
                   fmt::format("{:.1f}", sweep["loss_pct"].get<double>())});
    return table.str() + fmt::format(
                             "mean rank correlation of sweeps with 8 rows or more and 1.5 times between slowest and "
                             "best: {:.2f}; loss of the choice: mean {:.1f} %, worst {:.1f} %\n",
                             ranking.value("mean_rank_correlation", 0.0), ranking["mean_loss_pct"].get<double>(),
                             ranking["worst_loss_pct"].get<double>());
}

std::string report_text(const Json& json, bool baseline, bool summary) {
    std::string text = summary ? "" : rows_text(json["rows"], nullptr);
    for (const auto& [title, key] : {std::pair{"source", "by_source"}, {"gpu", "by_gpu"}, {"group", "by_group"}})
        text += "\n" + groups_text(title, json[key], baseline);
    if (!json["worst"].empty()) text += "\nworst\n" + rows_text(json["rows"], &json["worst"]);
    if (json.contains("ranking")) text += "\n" + ranking_text(json["ranking"]);
    if (json.contains("fits"))
        text +=
            fmt::format("\nfits: {} right, {} called fitting that ran out of memory, {} called too large that ran\n",
                        json["fits"]["right"].get<int>(), json["fits"]["false_fits"].get<int>(),
                        json["fits"]["false_oom"].get<int>());
    return text + "\n" + groups_text(json["kind"], {{"all rows", json["summary"]}}, baseline);
}

struct Request {
    std::string file;
    ValidateOptions options;
    int jobs = 0;
    bool summary = false;
};

void validate(const CommonOptions& common, const Request& request) {
    const MeasuredTable table = read_measured(request.file);
    const Kind& kind = kind_of(table);
    check_numbers(table, kind);
    const int jobs =
        request.jobs > 0 ? request.jobs : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
    const Json json = report_json(kind, validate_all(table, kind, request.options, jobs));
    std::cout << (common.format == OutputFormat::json ? json_text(json)
                                                      : report_text(json, request.options.baseline, request.summary));
}

}  // namespace

void add_validate(CLI::App& app, CommonOptions& common) {
    CLI::App* command = app.add_subcommand("validate", "predict published measurements and print the error table");
    auto request = std::make_shared<Request>();
    command
        ->add_option("MEASURED", request->file,
                     "CSV of gemm, collectives, hbm_attention, training or memory, by columns")
        ->required();
    command->add_flag("--summary", request->summary, "leave out the table of all rows");
    command->add_flag("--formula", request->options.formula, "the closed form instead of the replay (training)");
    command->add_option("--set", request->options.sets, "override a key of a document after the rules (repeatable)");
    command->add_flag("--baseline", request->options.baseline, "show beside it what the data sheet alone would say");
    command->add_option("-j,--jobs", request->jobs, "processes at a time (default: one per core)")
        ->check(CLI::Range(1, 1024))
        ->type_name("N");
    add_output_options(*command, common);
    command->footer("Example: plansim validate tests/accuracy/measured/gemm.csv");
    command->callback([&common, request] { validate(common, *request); });
}

}  // namespace plansim
