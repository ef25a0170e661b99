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

if is("ClusterSetEmpty", "True") then
  return health("Suspended", "ClusterSetEmpty", "the set has no cluster")
end
if is("ClusterSetEmpty", "False") then
  return health("Healthy", "ClusterSetEmpty", "the set has clusters")
end
if is("ClusterSetEmpty", "Unknown") then
  return health("Degraded", "ClusterSetEmpty", "the selector of the set is not valid")
end
return { status = "Progressing", message = "the clusters of the set have not been counted" }
