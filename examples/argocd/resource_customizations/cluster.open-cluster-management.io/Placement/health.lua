local conditions = {}
if obj.status ~= nil and obj.status.conditions ~= nil then
  for _, condition in ipairs(obj.status.conditions) do
    conditions[condition.type] = condition
  end
end

-- Whether a condition has a status, and is about the present spec where it says what it is about.
local function is(type, status)
  local condition = conditions[type]
  if condition == nil or condition.status ~= status then
    return false
  end
  local observed = condition.observedGeneration
  return observed == nil or observed == 0 or observed >= (obj.metadata.generation or 0)
end

local function health(status, type, otherwise)
  local condition = conditions[type]
  local message = otherwise
  if condition ~= nil and condition.message ~= nil and condition.message ~= "" then
    message = condition.message
  end
  return { status = status, message = message }
end

if is("PlacementMisconfigured", "True") then
  return health("Degraded", "PlacementMisconfigured", "the placement is misconfigured")
end
if is("PlacementSatisfied", "True") then
  return health("Healthy", "PlacementSatisfied", "all decisions are scheduled")
end
if is("PlacementSatisfied", "False") then
  -- Fewer clusters than wanted: another cluster may join.
  if conditions["PlacementSatisfied"].reason == "NotAllDecisionsScheduled" then
    return health("Progressing", "PlacementSatisfied", "not all decisions are scheduled")
  end
  return health("Degraded", "PlacementSatisfied", "no cluster is selected")
end
return { status = "Progressing", message = "the placement has not been scheduled" }
