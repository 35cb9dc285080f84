// Property values on the way to the screen.
#include "fs/cli/property_text.h"

#include <gtest/gtest.h>

namespace zuse::cli {
namespace {

Json view(const std::string& text, std::uint64_t number, const std::string& source = "local") {
  return {{"text", text}, {"number", number}, {"source", source}, {"from", "tank"}};
}

Json dataset() {
  return {{"name", "tank/a"},
          {"type", "filesystem"},
          {"used", 2048},
          {"available", 1 << 20},
          {"referenced", 1024},
          {"properties",
           {{"recordsize", view("128K", 131072)},
            {"used", view("2K", 2048, "none")},
            {"compressratio", view("1.50x", 0, "none")},
            {"mountpoint", view("/a", 0)},
            {"com.example:owner", view("me", 0)}}}};
}

TEST(Split, EmptyPartsAreLeftOut) {
  EXPECT_EQ(split("a,b"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(split(",a,,b,"), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(split("").empty());
}

TEST(DatasetProperty, ExactMeansNumbers) {
  EXPECT_EQ(dataset_property_text(dataset(), "recordsize", false), "128K");
  EXPECT_EQ(dataset_property_text(dataset(), "recordsize", true), "131072");
  EXPECT_EQ(dataset_property_text(dataset(), "used", true), "2048");
  EXPECT_EQ(dataset_property_text(dataset(), "compressratio", true), "1.50");
}

TEST(DatasetProperty, TotalsStandInForPropertiesThatAreNotListed) {
  EXPECT_EQ(dataset_property_text(dataset(), "available", false), "1M");
  EXPECT_EQ(dataset_property_number(dataset(), "available"), std::uint64_t{1} << 20);
}

TEST(DatasetProperty, WhatADatasetDoesNotHaveIsADash) {
  EXPECT_EQ(dataset_property_text(dataset(), "volsize", false), "-");
  Json snapshot = dataset();
  snapshot["type"] = "snapshot";
  EXPECT_EQ(dataset_property_text(snapshot, "available", false), "-");
}

TEST(DatasetProperty, AbbreviationsAndUserPropertiesAreKnown) {
  EXPECT_EQ(full_dataset_property("refer"), "referenced");
  EXPECT_TRUE(is_dataset_property("com.example:owner"));
  EXPECT_FALSE(is_dataset_property("nonsense"));
  EXPECT_EQ(dataset_property_text(dataset(), "com.example:owner", false), "me");
}

TEST(Source, IsSpelledAsZfsDoes) {
  EXPECT_EQ(source_text(view("", 0, "none")), "-");
  EXPECT_EQ(source_text(view("", 0, "inherited")), "inherited from tank");
  EXPECT_EQ(source_text(view("", 0, "default")), "default");
}

TEST(PoolProperties, FollowFromTheTotalsWhereThePoolListsNone) {
  const Json answer = {{"name", "tank"},
                       {"size", 1000},
                       {"allocated", 250},
                       {"properties", {{"health", view("ONLINE", 0)}}}};
  const Json properties = pool_properties(answer);
  EXPECT_EQ(pool_property_text("free", properties.at("free"), true), "750");
  EXPECT_EQ(pool_property_text("capacity", properties.at("capacity"), false), "25%");
  EXPECT_EQ(pool_property_text("capacity", properties.at("capacity"), true), "25");
  EXPECT_EQ(pool_property_text("health", properties.at("health"), false), "ONLINE");
  EXPECT_EQ(pool_property_text("checkpoint", properties.at("checkpoint"), false), "-");
}

TEST(PoolColumn, HeadsAreShortAsZpoolPrintsThem) {
  EXPECT_EQ(pool_column("allocated").name, "ALLOC");
  EXPECT_EQ(pool_column("frag").name, "FRAG");
  EXPECT_EQ(pool_column("health").name, "HEALTH");
}

}  // namespace
}  // namespace zuse::cli
